package import HaulContract
package import HaulRedis

/// An element that is ready to be pushed, and the id of its job.
package struct Element: Sendable {
    package let id: String
    package let text: String
    /// The URL and its mirrors, with their secrets.
    let urls: [String]
    /// The first URL, without secrets.
    package let maskedURL: String
    /// The batch that the job joins.
    package let batch: String?
    /// The group with which the job takes turns.
    package let group: String?
    /// The field `at`, unix ms.
    package let timestamp: Int64?
    /// Fields of its steps that the contract does not know.
    package private(set) var unknownStepFields: [String] = []

    /// An element to be pushed. Throws `Job.Invalid` if `json` is not a valid job.
    package init(_ json: JSON) throws(Job.Invalid) {
        try self.init(json, as: json.text)
        unknownStepFields = try Job(json: json).checkSteps()
    }

    /// An element that was pushed, and that may have blanks. Throws `Job.Invalid` if no claim would accept it: a claim
    /// does not look into steps.
    ///
    /// - Parameters:
    ///   - json: What was read from `bytes`.
    ///   - base: The URL against which the queue resolves a relative `url`.
    init(waiting bytes: [UInt8], _ json: JSON, base: String?) throws(Job.Invalid) {
        do throws(Job.Invalid) { try self.init(json, as: String(decoding: bytes, as: UTF8.self)) } catch {
            guard error.field == "url", let base,
                let absolute = RelativeReference.absolute(bytes, json, base: base), let json = try? JSON(absolute)
            else { throw error }
            try self.init(json, as: String(decoding: absolute, as: UTF8.self))
        }
    }

    /// Computes the id as id_of() of Lua/claim/envelopes.lua does.
    private init(_ json: JSON, as text: String) throws(Job.Invalid) {
        let job = try Job(json: json)
        timestamp = job.at
        batch = job.batch?.name
        group = job.group
        self.text = text
        try Job.checkSize(text.utf8)
        urls = job.urls
        maskedURL = MaskedURL.text(urls[0])
        if let id = job.id {
            self.id = id
        } else if json["method"] != nil || json["headers"] != nil || json["urls"] != nil || job.kind != .download {
            id = String(SHA1.hex(text).prefix(16))
        } else {
            id = String(SHA1.hex(job.urls[0] + "\n" + (job.path ?? "")).prefix(16))
        }
    }
}

extension Element {
    /// The same element with `at`, unless it has one. The id stays the same: an id that would be computed from the
    /// whole element is written into it. Both come first, so that even the beginning of a rejected element shows them.
    package func made(at timestamp: Int64) -> Element {
        guard let json = try? JSON(text), json["at"] == nil else { return self }
        let others = (json.members ?? []).filter { $0.name != "id" }.map { "\(JSON.quoted($0.name)):\($0.raw)" }
        let members = ["\"id\":\(JSON.quoted(id))", "\"at\":\(timestamp)"] + others
        return (try? Element(JSON("{\(members.joined(separator: ","))}"))) ?? self
    }
}

/// What became of a push of several jobs.
package struct PushReport: Sendable {
    /// The timestamps of the jobs that are certainly pushed, unix ms, by their ids.
    package var timestamps: [String: Int64] = [:]
    /// Why others are not, or perhaps not, pushed; nil if all are.
    package var error: RedisError?
}

extension Queue {
    /// Puts jobs at the end of the queue, with the present time by Redis' clock as `at`, so that they are in one order
    /// with operations.
    ///
    /// - Returns: The timestamp of each push, unix ms, by the id of the job.
    @discardableResult
    package func push(now elements: [Element]) async throws(RedisError) -> [String: Int64] {
        let report = await report(ofPushing: elements)
        if let error = report.error { throw error }
        return report.timestamps
    }

    /// The same, and says after an error which jobs are pushed: those of other partitions, or of earlier calls.
    package func report(ofPushing elements: [Element]) async -> PushReport {
        guard partitions.isEmpty else {
            let placed = Dictionary(grouping: elements, by: placement)
            let results = await results(placed.keys.sorted()) { queue, number throws(RedisError) in
                let report = await queue.report(ofPushing: placed[number] ?? [])
                // The error gets the name of the partition, unless some of its jobs are pushed.
                if let error = report.error, report.timestamps.isEmpty { throw error }
                return report
            }
            var joined = PushReport()
            for result in results {
                do throws(RedisError) {
                    let report = try result.get()
                    joined.timestamps.merge(report.timestamps, uniquingKeysWith: max)
                    joined.error = joined.error ?? report.error
                } catch { joined.error = joined.error ?? error }
            }
            return joined
        }
        var report = PushReport()
        guard !elements.isEmpty else { return report }
        do throws(RedisError) {
            let timestamp = try await timestamp(of: .push(elements.map(\.id)))
            let made = elements.map { $0.made(at: timestamp) }
            // One call at a time, so that the pages before it are known to be pushed if the connection ends.
            for page in made.chunks(ofCount: 500) {
                try await redis.send(Command(arguments: ["LPUSH", keys.jobs] + page.map(\.text)))
                report.timestamps.merge(page.map { ($0.id, $0.timestamp ?? timestamp) }, uniquingKeysWith: max)
            }
        } catch { report.error = error }
        return report
    }

    /// Puts jobs at the end of the queue by LPUSH, of at most 500 jobs each, in one round trip.
    ///
    /// - Parameters:
    ///   - toFront: Puts them at the front by RPUSH, in their order.
    ///   - replicas: Waits for so many replicas to confirm the pushes, for at most `wait`.
    ///   - waiters: For each partition a client that is used for nothing else, because WAIT blocks its connection.
    /// - Returns: How many replicas have confirmed; 0 without a waiter.
    @discardableResult
    package func push(
        _ elements: [Element], toFront: Bool = false, replicas: Int = 0, within wait: Duration = .zero,
        on waiters: [Redis] = []
    ) async throws(RedisError) -> Int {
        guard partitions.isEmpty else {
            let placed = Dictionary(grouping: elements, by: placement)
            let counts = try await each { queue throws(RedisError) -> Int? in
                let number = queue.name.partition ?? 0
                guard let own = placed[number] else { return nil }
                return try await queue.push(
                    own, toFront: toFront, replicas: replicas, within: wait,
                    on: waiters.isEmpty ? [] : [waiters[number]])
            }
            return counts.compactMap(\.self).min() ?? 0
        }
        // The front of the queue is the right end of the list. The last element that is pushed there is claimed first.
        let texts = toFront ? elements.map(\.text).reversed() : elements.map(\.text)
        let batches = texts.chunks(ofCount: 500).map { page in
            Call.command(Command(arguments: [toFront ? "RPUSH" : "LPUSH", keys.jobs] + Array(page)))
        }
        guard let waiter = waiters.first, replicas > 0 else {
            for reply in try await redis.pipeline(batches) { _ = try reply.get() }
            return 0
        }
        let waitCommand = Call.command(Command("WAIT", replicas, max(1, wait.milliseconds)))
        var count = 0
        for reply in try await waiter.pipeline(batches + [waitCommand], blocking: wait) {
            count = try reply.get().int ?? 0
        }
        return count
    }
}
