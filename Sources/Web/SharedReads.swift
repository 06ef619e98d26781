import HaulRedis

/// A text that was read from Redis.
struct SharedText: Sendable {
    /// A number that no other text of this process has. A reading that finds the same text again keeps it.
    typealias Version = UInt64

    let text: String
    let version: Version
}

/// A cache of texts that were read from Redis. Calls for the same key within its age share one read, even while it is
/// in progress. So a hundred open pages cost Redis as much as one.
actor SharedReads {
    private typealias Read = Task<Result<SharedText, any Error>, Never>

    private struct Entry {
        let task: Read
        let started: ContinuousClock.Instant
        var isExpired = false
        /// nil until it was read.
        var found: SharedText?
        var length: Int { found?.text.utf8.count ?? 0 }

        func isFresh(within age: Duration) -> Bool { !isExpired && started + age > .now }
    }

    private let traffic: Traffic
    private var entries: [String: Entry] = [:]
    /// From this many entries on, those that are older than `maxAge` are dropped.
    private static let cleanupThreshold = 64
    private static let maxAge: Duration = .seconds(2)
    /// The most that all texts have together, in bytes, before the oldest ones are dropped.
    private static let maxLength = 32 << 20
    private let versions = Counter()
    private var lastCleanup = ContinuousClock.now

    /// After this time without a reply a page says that Redis does not answer. A call of Redis has 5 s, because a
    /// failover may take as long.
    private static let maxSilence: Duration = .milliseconds(1900)
    /// How long a stream pauses between two reads.
    private static let pause: Duration = .milliseconds(1150)

    /// - Parameter traffic: The counters of the client that reads.
    init(_ traffic: Traffic) { self.traffic = traffic }

    /// Makes all texts be read again after a change, so that the client that made it does not get old ones.
    func expireAll() {
        for key in entries.keys { entries[key]?.isExpired = true }
    }

    /// Those texts that were read within their ages, without waiting for any; nil for the others.
    ///
    /// - Parameter texts: Keys and ages.
    func known(_ texts: [(key: String, age: Duration)]) -> [SharedText?] {
        texts.map { key, age in
            guard let entry = entries[key], entry.isFresh(within: age) else { return nil }
            return entry.found
        }
    }

    /// The text of `key`, no older than `age`.
    ///
    /// - Parameter isWatched: The call fails once Redis has been silent for `maxSilence`. The read itself goes on.
    func text(
        _ key: String, within age: Duration, isWatched: Bool = false,
        _ read: @escaping @Sendable () async throws -> String
    ) async throws -> SharedText {
        let task = task(key, within: age, read)
        let result = try await isWatched ? resultUnlessSilent(of: task) : task.value
        // Only those who wait now get the error. The next call reads again.
        if entries[key]?.task == task {
            switch result {
            case .failure: entries[key] = nil
            case .success(let found):
                entries[key]?.found = found
                dropOldest(except: key)
            }
        }
        return try result.get()
    }

    /// Keeps the texts within `maxLength`. Those that are being read count when they are there.
    private func dropOldest(except last: String) {
        var length = self.length
        guard length > Self.maxLength else { return }
        let others = entries.filter { $0.key != last && $0.value.length > 0 }
        for (key, entry) in others.sorted(by: { $0.value.started < $1.value.started }) where length > Self.maxLength {
            length -= entry.length
            entries[key] = nil
        }
    }

    /// The length of all texts that are kept, in bytes.
    var length: Int { entries.values.reduce(0) { $0 + $1.length } }

    private func task(
        _ key: String, within age: Duration, _ read: @escaping @Sendable () async throws -> String
    ) -> Read {
        if let entry = entries[key], entry.isFresh(within: age) { return entry.task }
        if entries.count >= Self.cleanupThreshold, lastCleanup + Self.maxAge < .now {
            lastCleanup = .now
            entries = entries.filter { $0.value.started + Self.maxAge > .now }
        }
        // A task of its own goes on for other callers when this one is cancelled.
        let task = Read { [before = entries[key]?.task, versions] in
            do {
                let text = try await read()
                if let before = try? await before?.value.get(), before.text == text { return .success(before) }
                return .success(SharedText(text: text, version: versions.next()))
            } catch { return .failure(error) }
        }
        entries[key] = Entry(task: task, started: .now)
        return task
    }

    private func resultUnlessSilent(of task: Read) async throws -> Result<SharedText, any Error> {
        let earliest = ContinuousClock.now - Self.pause
        while true {
            let end = max(traffic.lastReply ?? earliest, earliest) + Self.maxSilence
            if let result = await task.value(until: end) { return result }
            try Task.checkCancellation()
            // Redis may have replied to other calls meanwhile.
            if max(traffic.lastReply ?? earliest, earliest) + Self.maxSilence <= .now {
                throw RedisError(.timedOut, "Redis has not answered for 2 s")
            }
        }
    }
}
