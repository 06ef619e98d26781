package import HaulRedis

/// Looks whether a queue keeps the rules of the bus: every job is in exactly one place that agrees with its state, and no
/// key is there without a reason.
///
/// The queue may be in use, and large: it is read in pages, each job is judged at one moment by a function, and what looks
/// wrong is looked at again, since keys that are read one after the other may belong to different moments.
package struct Inspection: Sendable {
    /// Jobs that a function judges in one call: some milliseconds of Redis.
    private static let batch = 200
    private static let looks = 2
    private static let pause = Duration.milliseconds(300)

    let queue: Queue

    package init(_ queue: Queue) { self.queue = queue }

    /// All findings. With `repairing` what can be put right is, after it was seen three times.
    package func run(repairing: Bool = false) async throws(RedisError) -> [Finding] {
        let (stops, types) = try await checkTypes()
        if stops { return types }
        var findings = try await types + checkSettings() + checkWaiting()
        var (suspects, others) = try await survey(repairing: repairing)
        findings += others
        for _ in 0..<Self.looks where !suspects.isEmpty {
            try? await Task.sleep(for: Self.pause)
            if !suspects.missing.isEmpty { suspects.found(try await line()) }
            try await suspects.keep(judge(suspects).findings)
        }
        findings += try await judge(suspects, repairing: repairing).findings
        return findings + (try await checkHeld(repairing: repairing))
    }

    /// Jobs that looked wrong.
    private struct Suspects {
        var ids: Set<String> = []
        /// The elements that were not in line, by their jobs, which are queued.
        var missing: [String: String] = [:]
        var isEmpty: Bool { ids.isEmpty }

        mutating func found(_ line: Line) { missing = missing.filter { !line.holds($0.value) } }

        mutating func keep(_ findings: [Finding]) {
            ids = Set(findings.map(\.subject))
            missing = missing.filter { ids.contains($0.key) }
        }
    }

    /// The first look at everything: jobs that look wrong, and findings about keys that belong to none.
    private func survey(repairing: Bool) async throws(RedisError) -> (Suspects, [Finding]) {
        // First: what joins the line meanwhile is looked at again.
        let line = try await line()
        var suspects = Suspects()
        var others: [Finding] = []
        func look(_ ids: Set<String>) async throws(RedisError) {
            let (findings, queued) = try await judge(Suspects(ids: ids))
            suspects.ids.formUnion(findings.map(\.subject))
            for (id, element) in queued where !line.holds(element) {
                suspects.ids.insert(id)
                suspects.missing[id] = element
            }
        }
        try await forEachPageOfKeys { names throws(RedisError) in
            var ids: Set<String> = []
            var parts: Set<String> = []
            var mortal: [String] = []
            for name in names {
                switch kind(of: name) {
                case .job(let id): ids.insert(id)
                case .part(let id): parts.insert(id)
                case .mortal: mortal.append(name)
                case .unknown:
                    others.append(Finding(name, "the contract has no such key", "see what wrote it, and delete it"))
                case .fixed: break
                }
            }
            try await look(ids.union(withoutJob(parts)))
            // A scan tells some keys twice.
            others += try await checkSpecs(of: ids).filter { !others.contains($0) }
            others += try await checkMortal(mortal, repairing: repairing)
        }
        for index in queue.keys.indexes {
            try await forEachPage(of: index) { ids throws(RedisError) in try await look(withoutJob(Set(ids))) }
        }
        return (suspects, others)
    }

    private func judge(
        _ suspects: Suspects, repairing: Bool = false
    ) async throws(RedisError) -> (findings: [Finding], queued: [(id: String, element: String)]) {
        var findings: [Finding] = []
        var queued: [(id: String, element: String)] = []
        for ids in suspects.ids.sorted().pages(of: Self.batch) {
            let arguments: [any RedisArgument] =
                [Token.make(), repairing ? "repair" : ""] + queue.policy.retention
                + ids.flatMap { [$0, suspects.missing[$0] ?? ""] }
            let reply = try await queue.redis.run(
                queue.functions.inspect, keys: queue.keys.given(to: "-"), arguments: arguments,
                timeout: .seconds(30))
            let parts = (reply.array ?? []).map { ($0.array ?? []).compactMap(\.string) }
            guard parts.count == 2 else { throw RedisError(.reply, "the inspect function answered \(reply)") }
            for index in stride(from: 0, to: parts[0].count - 2, by: 3) {
                findings.append(
                    Finding(job: parts[0][index], breaks: parts[0][index + 1], isRepaired: parts[0][index + 2] == "1"))
            }
            for index in stride(from: 0, to: parts[1].count - 1, by: 2) {
                queued.append((parts[1][index], parts[1][index + 1]))
            }
        }
        return (findings, queued)
    }
}
