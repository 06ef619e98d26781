package import HaulRedis

/// Checks whether a queue keeps the rules of the bus: each job is exactly where its state requires it, and
/// no key exists without a reason.
///
/// The queue may be large and in use. It is read in pages, and a function checks each job at one point in time.
/// Whatever appears wrong is checked again, since keys that are read one after the other may belong to different points
/// in time.
package struct Inspection: Sendable {
    /// How many jobs one call checks. Each takes Redis some 20 µs.
    static let batch = 32
    private static let maxReadings = 2
    private static let pause = Duration.milliseconds(300)

    let queue: Queue

    package init(_ queue: Queue) { self.queue = queue }

    /// Returns all findings. With `repairing`, a job that was wrong in three checks is repaired by the fourth.
    package func run(repairing: Bool = false) async throws(RedisError) -> [Finding] {
        let (stops, types) = try await checkTypes()
        if stops { return types }
        var findings =
            try await types + checkReplay() + checkSettings() + checkDefaults() + checkLimits()
            + checkSchedules()
        findings += try await checkWaiting()
        var (suspects, others) = try await survey(repairing: repairing)
        findings += others
        for _ in 0..<Self.maxReadings where !suspects.isEmpty {
            try? await Task.sleep(for: Self.pause)
            if !suspects.missing.isEmpty { suspects.remove(try await continuations()) }
            try await suspects.keep(check(suspects).findings)
        }
        findings += try await check(suspects, repairing: repairing).findings
        findings += try await checkSumOfResponses(repairing: repairing)
        findings += try await checkBatches(repairing: repairing)
        findings += try await checkHeld(repairing: repairing)
        return findings + (try await checkDeferred(repairing: repairing))
    }

    /// Whether a restart of Redis would lose something. A client that may not ask finds nothing.
    private func checkReplay() async throws(RedisError) -> [Finding] {
        guard case .lacking(let command) = try await queue.replayRights() else { return [] }
        return [
            Finding(
                "the user default",
                "it may not run \(command), so a restart of Redis may lose what workers have written: Redis replays "
                    + "its AOF as this user", ReplayRights.advice)
        ]
    }

    /// Jobs that appeared wrong.
    private struct Suspects {
        var ids: Set<String> = []
        /// Queued jobs, and their elements that were not in the queue.
        var missing: [String: String] = [:]
        var isEmpty: Bool { ids.isEmpty }

        mutating func remove(_ known: Continuations) { missing = missing.filter { !known.contains($0.value) } }

        mutating func keep(_ findings: [Finding]) {
            ids = Set(findings.map(\.subject))
            missing = missing.filter { ids.contains($0.key) }
        }
    }

    /// The first check of everything. Returns the jobs that appear wrong, and findings about keys that belong to no
    /// job.
    private func survey(repairing: Bool) async throws(RedisError) -> (Suspects, [Finding]) {
        // The queue is read first. A job that joins it afterwards appears wrong here, and is checked again.
        let known = try await continuations()
        var suspects = Suspects()
        var others: [Finding] = []
        func examine(_ ids: Set<String>) async throws(RedisError) {
            let (findings, queued) = try await check(Suspects(ids: ids))
            suspects.ids.formUnion(findings.map(\.subject))
            for (id, element) in queued where !known.contains(element) {
                suspects.ids.insert(id)
                suspects.missing[id] = element
            }
        }
        try await forEachPageOfKeys { names throws(RedisError) in
            var ids: Set<String> = []
            var parts: Set<String> = []
            var volatile: [String] = []
            for name in names {
                switch kind(of: name) {
                case .job(let id): ids.insert(id)
                case .part(let id): parts.insert(id)
                case .volatile: volatile.append(name)
                case .unknown:
                    others.append(unknownKey(name))
                case .fixed: break
                }
            }
            try await examine(ids.union(idsWithoutHash(parts)))
            // SCAN may return a key twice.
            others += try await checkSpecs(of: ids).filter { !others.contains($0) }
            others += try await checkVolatile(volatile, repairing: repairing)
        }
        for index in try await soundIndexes() {
            try await forEachPage(of: index) { ids throws(RedisError) in try await examine(idsWithoutHash(Set(ids))) }
        }
        return (suspects, others)
    }

    private func check(
        _ suspects: Suspects, repairing: Bool = false
    ) async throws(RedisError) -> (findings: [Finding], queued: [(id: String, element: String)]) {
        var findings: [Finding] = []
        var queued: [(id: String, element: String)] = []
        for ids in suspects.ids.sorted().chunks(ofCount: Self.batch) {
            let arguments: [any RedisArgument] =
                [Token.make(), repairing ? "repair" : ""] + queue.policy.retention
                + ids.flatMap { [$0, suspects.missing[$0] ?? ""] }
            let reply = try await queue.redis.run(
                queue.functions.inspect, keys: queue.keys.functionKeys(for: "-"), arguments: arguments,
                timeout: .seconds(30))
            guard reply.array != nil else { throw RedisError(.reply, "the inspect function returned \(reply)") }
            let members = reply.members
            for row in members["findings"]?.array ?? [] {
                let texts = (row.array ?? []).compactMap(\.string)
                guard texts.count == 3 else { throw RedisError(.reply, "the inspect function returned \(reply)") }
                findings.append(Finding(job: texts[0], breaks: texts[1], isRepaired: texts[2] == "1"))
            }
            queued += (members["queued"]?.dictionary ?? [:]).map { ($0.key, $0.value) }
        }
        return (findings, queued)
    }
}
