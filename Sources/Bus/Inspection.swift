import Contract
package import Redis

/// A rule of the bus that does not hold.
package struct Finding: Sendable, Hashable {
    /// The job's id, or a key.
    package let subject: String
    package let problem: String
    /// What to do, or what was done.
    package let advice: String
    package var isRepaired = false
}

/// Looks whether a queue keeps the rules of the bus: every job is in exactly one place that agrees with its state, and no
/// key is there without a reason.
///
/// The queue may be in use: each job is judged at one moment by a script, and what looks wrong is looked at again, since
/// keys that are read one after the other may belong to different moments.
package struct Inspection: Sendable {
    private static let page = 1000
    private static let looks = 2
    private static let pause = Duration.milliseconds(300)

    private let queue: Queue

    package init(_ queue: Queue) { self.queue = queue }

    /// All findings. With `repairing` what can be put right is, after it was seen three times.
    package func run(repairing: Bool = false) async throws(RedisError) -> [Finding] {
        // With a key of the wrong type no script works.
        let types = try await checkTypes()
        guard types.isEmpty else { return types }
        let survey = try await survey()
        var findings = try await checkSettings() + survey.unknown
        var suspects: [String] = []
        for page in survey.ids.sorted().pages(of: Self.page) {
            suspects += try await judge(page, tickets: survey.tickets).map(\.subject)
        }
        suspects = Array(Set(suspects))
        for _ in 0..<Self.looks where !suspects.isEmpty {
            try? await Task.sleep(for: Self.pause)
            var still: Set<String> = []
            for page in suspects.pages(of: Self.page) { still.formUnion(try await judge(page).map(\.subject)) }
            suspects = suspects.filter(still.contains)
        }
        for page in suspects.sorted().pages(of: Self.page) { findings += try await judge(page, repairing: repairing) }
        return findings
    }

    // MARK: Jobs

    private func judge(
        _ ids: ArraySlice<String>, tickets: [String: String] = [:], repairing: Bool = false
    ) async throws(RedisError) -> [Finding] {
        let arguments: [any RedisArgument] =
            [Token.make(), repairing ? "repair" : ""] + ids.flatMap { [$0, tickets[$0] ?? ""] }
        let reply = try await queue.redis.run(
            queue.scripts.inspect, keys: queue.keys.fixed(worker: "-"), arguments: arguments, timeout: .seconds(30))
        let parts = (reply.array ?? []).compactMap(\.string)
        return stride(from: 0, to: parts.count - 2, by: 3).map { index in
            let (problem, advice) = Self.rules[parts[index + 1]] ?? (parts[index + 1], "")
            return Finding(
                subject: parts[index], problem: problem, advice: advice, isRepaired: parts[index + 2] == "1")
        }
    }

    /// What the script calls a broken rule: what that means, and what --repair does.
    private static let rules: [String: (problem: String, advice: String)] = [
        "type": ("one of its keys is no hash", "look at job:, spec: and offsets: with TYPE, and rename or delete it"),
        "orphan": ("offsets or a spec without a job", "--repair deletes them"),
        "index without job": ("an index names a job that is not there", "--repair takes the entry out"),
        "deadline": ("its deadline and the index of deadlines disagree", "--repair makes them agree"),
        "no state": ("its hash has no state", "see what wrote it; delete the hash if it is of no use"),
        "unknown state": ("its state is none of the contract's", "see what wrote it, then push the job again"),
        "second place": ("it is in an index of another state as well", "--repair takes it out there"),
        "no place": ("it is missing in the index of its state", "--repair puts it there"),
        "no lease": ("it runs without a lease", "--repair gives it one that is over, so that it runs again"),
        "no token": ("it runs without a token or worker", "its lease ends by itself, and it runs again"),
        "unknown to its worker": (
            "it runs, but its worker does not know it", "--repair ends its lease, so that it runs again"
        ),
        "no element": ("it is queued, but has no element in line", "--repair puts one at the front"),
        "ttl": ("a key of a final job, or of a job to come, would stay for ever", "--repair sets a time to live"),
        "unexpected ttl": ("a key of a job that is not final would expire", "--repair takes the time to live away"),
        "no spec": ("what was pushed is gone", "push the job again with its url"),
    ]

    // MARK: Keys

    /// The ids of all jobs that any key or index names, the tickets seen in line, and keys that have no reason.
    private func survey() async throws(RedisError) -> (
        ids: Set<String>, tickets: [String: String], unknown: [Finding]
    ) {
        let keys = queue.keys
        var ids: Set<String> = []
        var findings: [Finding] = []
        var held: [String] = []
        var cursor = "0"
        repeat {
            let reply = try await queue.redis.send(
                Command("SCAN", cursor, "MATCH", Self.escaped(keys.prefix) + "*", "COUNT", Self.page))
            guard let parts = reply.array, parts.count == 2, let next = parts[0].string else {
                throw RedisError(.reply, "SCAN answered \(reply)")
            }
            cursor = next
            for name in (parts[1].array ?? []).compactMap(\.string) {
                switch kind(of: name) {
                case .job(let id): ids.insert(id)
                case .held(let worker): held.append(worker)
                case .fixed: break
                case .unknown:
                    findings.append(
                        Finding(
                            subject: name, problem: "the contract has no such key",
                            advice: "see what wrote it, and delete it"))
                }
            }
        } while cursor != "0"
        let indexes = JobState.allCases.filter { $0 != .queued }.map(keys.index) + [keys.deadlines]
        for index in indexes {
            let reply = try await queue.redis.send(Command("ZRANGE", index, 0, -1), timeout: .seconds(30))
            ids.formUnion((reply.array ?? []).compactMap(\.string))
        }
        return (ids, try await readLine(), findings + (try await checkHeld(held)))
    }

    /// The tickets of the elements in line by their jobs' ids.
    private func readLine() async throws(RedisError) -> [String: String] {
        var tickets: [String: String] = [:]
        var start = 0
        while true {
            let reply = try await queue.redis.send(Command("LRANGE", queue.keys.jobs, start, start + Self.page - 1))
            let elements = reply.array ?? []
            for element in elements {
                guard let bytes = element.bytes, bytes.count < 300, let json = try? JSON(bytes),
                    let id = json["id"]?.string,
                    let ticket = json["t"]?.string
                else { continue }
                tickets[id, default: ""] += ticket + ","
            }
            guard elements.count == Self.page else { return tickets }
            start += Self.page
        }
    }

    /// What workers took and never claimed comes back as long as they are known.
    private func checkHeld(_ workers: [String]) async throws(RedisError) -> [Finding] {
        var findings: [Finding] = []
        for worker in workers {
            let replies = try await queue.redis.pipeline([
                .command(Command("LLEN", queue.keys.held(worker))),
                .command(Command("ZSCORE", queue.keys.workers, worker)),
            ])
            let subject = queue.keys.held(worker)
            if case .error = replies[0] {
                findings.append(
                    Finding(subject: subject, problem: "it must be a list", advice: "rename or delete it"))
            } else if replies[0].int ?? 0 > 0, replies[1] == .null {
                findings.append(
                    Finding(
                        subject: subject, problem: "its worker is not known, so nobody puts back what it holds",
                        advice: "LMOVE it to jobs, or start a worker of that name"))
            }
        }
        return findings
    }

    private enum Kind { case job(String), held(String), fixed, unknown }

    private func kind(of name: String) -> Kind {
        let rest = name.dropFirst(queue.keys.prefix.count)
        for kind in ["job:", "spec:", "offsets:"] where rest.hasPrefix(kind) {
            return .job(String(rest.dropFirst(kind.count)))
        }
        if rest.hasPrefix("held:") { return .held(String(rest.dropFirst(5))) }
        if ["worker:", "reply:"].contains(where: { rest.hasPrefix($0) }) { return .fixed }
        return Self.types[String(rest)] == nil ? .unknown : .fixed
    }

    private static let types = [
        "jobs": "list", "want": "hash", "tick": "string", "leases": "zset", "scheduled": "zset", "paused": "zset",
        "completed": "zset", "failed": "zset", "cancelled": "zset", "rejected": "list", "workers": "zset",
        "settings": "hash", "deadlines": "zset",
    ]

    private func checkTypes() async throws(RedisError) -> [Finding] {
        let names = Self.types.keys.sorted()
        let replies = try await queue.redis.pipeline(
            names.map { .command(Command("TYPE", queue.keys.prefix + $0)) })
        return zip(names, replies).compactMap { name, reply in
            guard let type = reply.string, type != "none", type != Self.types[name] else { return nil }
            return Finding(
                subject: queue.keys.prefix + name, problem: "it is a \(type), and must be a \(Self.types[name]!)",
                advice: "rename or delete it: nothing of the queue works meanwhile")
        }
    }

    private func checkSettings() async throws(RedisError) -> [Finding] {
        let reply = try await queue.redis.send(Command("HGETALL", queue.keys.settings))
        return reply.dictionary.sorted { $0.key < $1.key }.compactMap { name, value in
            let rule: String? =
                switch name {
                case "paused": ["0", "1", "true", "false"].contains(value) ? nil : "must be 0 or 1"
                case "max_running": Int(value).map { $0 >= 0 } ?? false ? nil : "must be a whole number, 0 or more"
                default: "is no setting"
                }
            return rule.map {
                Finding(
                    subject: queue.keys.settings, problem: "\(name) \($0), not \"\(value)\"",
                    advice: "HSET or HDEL it; it has no effect")
            }
        }
    }

    /// Braces mean nothing in a pattern, but brackets and stars of a name would.
    private static func escaped(_ text: String) -> String {
        text.map { "*?[]\\".contains($0) ? "\\\($0)" : String($0) }.joined()
    }
}

extension Array {
    fileprivate func pages(of size: Int) -> [ArraySlice<Element>] {
        stride(from: 0, to: count, by: size).map { self[$0..<Swift.min($0 + size, count)] }
    }
}
