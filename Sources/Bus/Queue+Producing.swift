package import HaulContract
package import HaulRedis

/// An element ready to be pushed, and the id that it will have.
package struct Element: Sendable {
    package let id: String
    package let text: String
    /// The first of its URLs, without secrets.
    package let maskedURL: String
    /// The batch that it joins.
    package let batch: String?
    /// `at`.
    package let moment: Int64?

    /// The id is worked out as the claim does: as given, else from the URL and the path, or from the whole element if
    /// more than those decide what is downloaded.
    package init(_ json: JSON) throws(Job.Invalid) {
        let job = try Job(json: json)
        moment = job.at
        batch = job.batch?.name
        text = json.text
        try Job.checkSize(text.utf8)
        maskedURL = MaskedURL.text(job.urls[0])
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
    /// The same push with the time at which it is made, unless it tells one. An id that would follow from the whole element
    /// stays what it was.
    package func made(at moment: Int64) -> Element {
        guard let json = try? JSON(text), json["at"] == nil else { return self }
        var members = (json.members ?? []).map { "\(JSON.quoted($0.name)):\($0.raw)" }
        if json["id"] == nil { members.append("\"id\":\(JSON.quoted(id))") }
        members.append("\"at\":\(moment)")
        return (try? Element(JSON("{\(members.joined(separator: ","))}"))) ?? self
    }
}

extension Queue {
    /// Puts jobs at the end of the line, each with the moment at which it is pushed, by Redis' clock: so they are in one
    /// order with requests. Returns these moments by the jobs' ids.
    @discardableResult
    package func push(now elements: [Element]) async throws(RedisError) -> [String: Int64] {
        let moment = try await moment()
        let made = elements.map { $0.made(at: moment) }
        try await push(made)
        return Dictionary(made.map { ($0.id, $0.moment ?? moment) }) { max($0, $1) }
    }

    /// Puts jobs at the end of the line: a plain LPUSH, of many jobs several, in one round trip.
    ///
    /// - Parameters:
    ///   - toFront: They are taken before all others: RPUSH.
    ///   - replicas: So many are asked, for at most `wait`, whether they have it.
    ///   - waiter: A client of its own for that: WAIT holds up what comes behind it.
    /// - Returns: How many replicas have it, as far as that was asked.
    @discardableResult
    package func push(
        _ elements: [Element], toFront: Bool = false, replicas: Int = 0, within wait: Duration = .zero,
        on waiter: Redis? = nil
    ) async throws(RedisError) -> Int {
        // The front of the line is the right end of the list: what is pushed there last is taken first.
        let texts = toFront ? elements.map(\.text).reversed() : elements.map(\.text)
        let batches = texts.pages(of: 500).map { page in
            Call.command(Command(arguments: [toFront ? "RPUSH" : "LPUSH", keys.jobs] + Array(page)))
        }
        guard let waiter, replicas > 0 else {
            for reply in try await redis.pipeline(batches) { _ = try reply.get() }
            return 0
        }
        let question = Call.command(Command("WAIT", replicas, max(1, wait.milliseconds)))
        var count = 0
        for reply in try await waiter.pipeline(batches + [question], blocking: wait) {
            count = try reply.get().int ?? 0
        }
        return count
    }

    /// Takes the oldest final event of a list of replies; nil if none came within `wait`.
    ///
    /// `waiter` is a client of its own: BRPOP holds up what comes behind it.
    package func reply(
        to name: String, within wait: Duration, on waiter: Redis
    ) async throws(RedisError) -> [UInt8]? {
        let seconds = String(max(0.01, wait.secondsValue))
        let replies = try await waiter.pipeline(
            [.command(Command("BRPOP", keys.reply(name), seconds))], blocking: wait)
        return try replies[0].get().array?.last?.bytes
    }
}
