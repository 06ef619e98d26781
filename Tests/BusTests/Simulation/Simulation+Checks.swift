import HaulContract
import HaulRedis
import HaulTestSupport

@testable import HaulBus

// Checks of everything but the jobs' states.

extension Simulation {
    /// Everything that Redis holds of a job.
    func traces(of id: String) async throws -> [String] {
        let keys = queue.keys
        let names = [keys.job(id), keys.spec(id), keys.offsets(id)]
        // Redis may return the fields of a hash in another order each time.
        let hashes = try await redis.pipeline(names.map { .command(Command("HGETALL", $0)) }).map {
            "\($0.dictionary.sorted { $0.key < $1.key })"
        }
        let ends = names.map { Call.command(Command("PEXPIRETIME", $0)) }
        let places = keys.indexes.map { Call.command(Command("ZSCORE", $0, id)) }
        let others = try await redis.pipeline(ends + places)
        // Any call may move an element between `jobs` and the list of its group.
        let elements = try await elements(in: [keys[.deferredGroup] + "*"]).filter { Self.id(of: $0) == id }
        return hashes + others.map { "\($0)" } + elements.map { String(decoding: $0, as: UTF8.self) }.sorted()
    }

    /// The elements in `jobs` and in the lists of these patterns.
    private func elements(in patterns: [String]) async throws -> [[UInt8]] {
        var names = [queue.keys.jobs]
        for pattern in patterns {
            names += try await redis.send(Command("KEYS", pattern)).array?.compactMap(\.string) ?? []
        }
        let lists = names.map { Call.command(Command("LRANGE", $0, 0, -1)) }
        return try await redis.pipeline(lists).flatMap { $0.array ?? [] }.compactMap(\.bytes)
    }

    private static func id(of element: [UInt8]) -> String? {
        guard let json = try? JSON(element) else { return nil }
        return json["id"]?.string ?? (try? Element(json))?.id
    }

    func waitingIDs() async throws -> Set<String> {
        let patterns = [queue.keys.held("*"), queue.keys[.deferredHost] + "*", queue.keys[.deferredGroup] + "*"]
        return Set(try await elements(in: patterns).compactMap(Self.id))
    }

    mutating func expect(_ before: [String], _ id: String, _ what: String) async throws {
        let after = try await traces(of: id)
        guard after != before else { return }
        let changed = zip(before, after).filter { $0 != $1 }.map { "\($0) to \($1)" }
        ledger.recordViolation("\(id): \(what) changed \(changed.joined(separator: ", "))")
    }

    /// Checks that `want` has the operations that are not applied yet, and nothing else.
    mutating func checkPendingOperations() async throws {
        let wanted = try await redis.send(Command("HGETALL", queue.keys.want)).dictionary
        let found = wanted.filter { $0.key != "j 1" }.mapValues { $0.split(separator: " ")[0] }
        let expected = ledger.jobs.compactMapValues { $0.pendingOperation?.kind.rawValue }
        guard found.keys.sorted() == expected.keys.sorted() else {
            return ledger.recordViolation("operations: \(found), and not \(expected)")
        }
        for (id, operation) in expected where found[id]! != operation {
            ledger.recordViolation("\(id): the operation is \(found[id]!), and not \(operation)")
        }
    }

    /// Checks that the jobs counted at each host and in each group are those that run and name it, and that the elements that wait for
    /// hosts are counted.
    mutating func checkHosts() async throws {
        let running =
            try await redis.send(Command("ZRANGE", queue.keys.leases, 0, -1)).array?.compactMap(\.string) ?? []
        var (counted, grouped): ([String: Set<String>], [String: Set<String>]) = ([:], [:])
        for id in running {
            let names = try await redis.send(Command("HMGET", queue.keys.job(id), "host", "group")).array ?? []
            if let host = names[0].string { counted[host, default: []].insert(id) }
            if let group = names[1].string { grouped[group, default: []].insert(id) }
        }
        var waiting = 0
        for host in ["h0", "h1"] {
            let busy = try await redis.send(Command("SMEMBERS", queue.keys[.busy] + host)).array?.compactMap(\.string)
            if Set(busy ?? []) != counted[host] ?? [] {
                ledger.recordViolation("\(host): \(busy ?? []) are counted, and not \(counted[host] ?? [])")
            }
            waiting += try await redis.send(Command("LLEN", queue.keys[.deferredHost] + host)).int ?? 0
        }
        let reported = try await redis.send(Command("HGET", queue.keys.hosts, "waiting")).string ?? "0"
        if reported != "\(waiting)" {
            ledger.recordViolation("\(reported) are counted as waiting for hosts, and \(waiting) wait")
        }
        if waiting > 0 { record("waited for a host") }
        for group in FleetLimits.groups {
            let busy = try await redis.send(Command("SMEMBERS", queue.keys[.busyGroup] + group)).array
            let running = Set(busy?.compactMap(\.string) ?? [])
            if running != grouped[group] ?? [] {
                ledger.recordViolation("\(group): \(running) are counted, and not \(grouped[group] ?? [])")
            }
            let length = try await redis.send(Command("LLEN", queue.keys[.deferredGroup] + group)).int ?? 0
            if length > 0 { record("waited for a turn") }
        }
    }

    /// Checks that the bytes of the responses add up to their sum. Counts whether responses were kept and dropped.
    mutating func checkResponses() async throws {
        var counted = try await redis.send(Command("HGETALL", queue.keys.responseBytes)).dictionary
        let sum = counted.removeValue(forKey: KeptResponses.sum)
        if Int(sum ?? "0") != counted.values.compactMap({ Int($0) }).reduce(0, +) {
            ledger.recordViolation("the responses have \(sum ?? "no") bytes in all, and not those of \(counted)")
        }
        let dropped = try await queue.jobs(ledger.ids).count { $0.droppedResponse != nil }
        if dropped > 0 { record("responses dropped") }
        if !counted.isEmpty { record("responses kept") }
    }

    /// Checks that no field of a job's hash is an empty text: a field that does not apply is absent.
    mutating func checkFields() async throws {
        let ids = ledger.ids
        let hashes = try await redis.pipeline(ids.map { .command(Command("HGETALL", queue.keys.job($0))) })
        for (id, hash) in zip(ids, hashes) {
            let empty = hash.dictionary.filter(\.value.isEmpty).keys.sorted()
            if !empty.isEmpty { ledger.recordViolation("\(id): \(empty.joined(separator: ", ")) is empty") }
        }
    }

    /// Checks that a tick has left nothing that was due.
    mutating func checkOverdue() async throws {
        let keys = queue.keys
        let due = [keys.scheduled, keys.leases].map { Call.command(Command("ZCOUNT", $0, "-inf", Int(ledger.now))) }
        let counts = try await redis.pipeline(due).map { $0.int ?? -1 }
        if counts[0] != 0 { ledger.recordViolation("\(counts[0]) due jobs were not promoted") }
        if counts[1] != 0, ledger.now >= ledger.grace {
            ledger.recordViolation("\(counts[1]) lost jobs were not reaped")
        }
    }

    /// Checks that each named reply list gets a reply once the job has ended, and not two for one end.
    mutating func checkReplies(_ waitingIDs: Set<String>) async throws {
        let unannounced =
            try await redis.send(Command("ZRANGE", queue.keys.unannounced, 0, -1)).array?.compactMap(\.string) ?? []
        for (id, job) in ledger.jobs.sorted(by: { $0.key < $1.key }) {
            for name in job.replyLists.sorted() {
                let replies = try await redis.send(Command("LRANGE", queue.keys.reply(name), 0, -1)).array ?? []
                let reported = replies.compactMap { $0.bytes.flatMap { Event($0) } }
                if Set(reported.compactMap(\.position)).count != reported.count {
                    ledger.recordViolation("\(id): \(name) got two replies for one end")
                }
                let hasEnded = job.facts.state?.isFinal ?? true
                let mayCome =
                    job.pendingSince != nil || job.pendingOperation != nil || job.want != nil || job.facts.isKept
                    || waitingIDs.contains(id) || unannounced.contains(id)
                if hasEnded, !mayCome, reported.isEmpty { ledger.recordViolation("\(id): \(name) got no reply") }
                if !reported.isEmpty { record("replies") }
            }
        }
    }

    /// Checks at the end how many replies each list got.
    private mutating func checkReplyCounts() async throws {
        for name in ledger.rejectedReplyLists.sorted() {
            let count = try await redis.send(Command("LLEN", queue.keys.reply(name))).int
            if count != 1 {
                ledger.recordViolation("\(name) got \(count ?? -1) replies that its element is rejected")
            }
        }
        for (id, job) in ledger.jobs.sorted(by: { $0.key < $1.key }) {
            for name in job.replyLists.sorted() {
                let replies = try await redis.send(Command("LRANGE", queue.keys.reply(name), 0, -1)).array ?? []
                let reported = replies.compactMap { $0.bytes.flatMap { Event($0) } }.filter { $0.finalState != nil }
                    .count
                let ends = events.ends[id] ?? 0
                if reported > ends {
                    ledger.recordViolation("\(id) ended \(ends) times, and \(name) got \(reported) replies")
                }
            }
        }
    }

    // MARK: The end

    /// Opens the queue, wakes all workers, and works until nothing is left.
    mutating func drain() async throws {
        try await open()
        try await liftLimits()
        try await removeSchedules()
        for index in workers.indices { workers[index].isFrozen = false }
        var quiet = 0
        while quiet < 60, ledger.violations.count < 20 {
            try await advance(1000)
            var isBusy = false
            var index = 0
            while index < workers.count {
                try await tick(index)
                try await claim()
                // A job may kill its worker, which is then replaced.
                while index < workers.count, let claim = workers[index].runs.last {
                    isBusy = true
                    try await finish(claim, of: index, as: QueueFixture.done)
                }
                index += 1
            }
            quiet = isBusy ? 0 : quiet + 1
        }
        try await inspect("end")
        for violation in events.violations { ledger.recordViolation(violation) }
        try await checkReplyCounts()
        try await checkBatchEnds()
        for (kind, name) in [("HLEN", queue.keys.want), ("LLEN", queue.keys.jobs)] {
            if try await redis.send(Command(kind, name)).int != 0 { ledger.recordViolation("\(name) is not empty") }
        }
        for (id, job) in ledger.jobs.sorted(by: { $0.key < $1.key }) {
            record("at the end \(job.facts.state?.rawValue ?? "unknown")")
            if job.pendingSince != nil {
                ledger.recordViolation(
                    "\(id) is \(job.facts.state?.rawValue ?? "unknown"), and its push or operation was lost")
            }
            if let state = job.facts.state, !state.isFinal, state != .paused {
                ledger.recordViolation("\(id) stays \(state) for ever")
            }
        }
    }
}
