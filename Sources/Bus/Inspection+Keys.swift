import HaulContract
import HaulRedis

// What is looked at besides the jobs.

extension Inspection {
    enum KeyKind {
        /// A job's hash.
        case job(String)
        /// What belongs to a job.
        case part(String)
        /// It must have a time to live.
        case mortal
        case fixed, unknown
    }

    func kind(of name: String) -> KeyKind {
        let rest = name.dropFirst(queue.keys.prefix.count)
        if rest.hasPrefix("job:") { return .job(String(rest.dropFirst(4))) }
        for kind in ["spec:", "offsets:"] where rest.hasPrefix(kind) {
            return .part(String(rest.dropFirst(kind.count)))
        }
        if rest.hasPrefix("worker:") || rest.hasPrefix("host:") || rest.hasPrefix("reply:") { return .mortal }
        if rest.hasPrefix("held:") || rest.hasPrefix("drops:") { return .fixed }
        return Self.types[String(rest)] != nil ? .fixed : .unknown
    }

    private static let types = [
        "jobs": "list", "want": "hash", "tick": "string", "leases": "zset", "scheduled": "zset", "paused": "zset",
        "completed": "zset", "failed": "zset", "cancelled": "zset", "rejected": "list", "workers": "zset",
        "settings": "hash", "deadlines": "zset", "places": "list", "untold": "zset", "epoch": "string",
    ]

    func checkTypes() async throws(RedisError) -> [Finding] {
        let names = Self.types.keys.sorted()
        let replies = try await queue.redis.pipeline(
            names.map { .command(Command("TYPE", queue.keys.prefix + $0)) })
        return zip(names, replies).compactMap { name, reply in
            guard let type = reply.string, type != "none", type != Self.types[name] else { return nil }
            return Finding(
                queue.keys.prefix + name, "it is a \(type), and must be a \(Self.types[name]!)",
                "rename or delete it: nothing of the queue works meanwhile")
        }
    }

    func checkSettings() async throws(RedisError) -> [Finding] {
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
                    queue.keys.settings, "\(name) \($0), not \"\(value)\"", "HSET or HDEL it; it has no effect")
            }
        }
    }

    /// Workers' hashes and lists of replies go a day after they were last written.
    func checkMortal(_ names: [String], repairing: Bool) async throws(RedisError) -> [Finding] {
        let times = try await queue.redis.pipeline(names.map { .command(Command("PTTL", $0)) })
        let immortal = zip(names, times).filter { $1.int == -1 }.map(\.0)
        if repairing {
            // Only where there still is none.
            _ = try await queue.redis.pipeline(
                immortal.map { .command(Command("PEXPIRE", $0, 86_400_000, "NX")) })
        }
        return immortal.map {
            Finding($0, "it would stay for ever", "--repair sets a time to live", isRepaired: repairing)
        }
    }

    /// Requests are heard within a second, files deleted as soon as their store is served.
    func checkWaiting() async throws(RedisError) -> [Finding] {
        let keys = queue.keys
        let now = try await queue.moment()
        var findings: [Finding] = []
        let replies = try await queue.redis.pipeline([
            .command(Command("HLEN", keys.want)), .command(Command("GET", keys.tick)),
        ])
        let look = replies[1].string.flatMap { Int64($0.prefix { $0 != " " }) } ?? 0
        if let count = replies[0].int, count > 0, now - look > 10_000 {
            findings.append(
                Finding(keys.want, "\(count) requests wait, and no worker looks after the queue", "start a worker"))
        }
        var lists: Set<String> = []
        try await forEachPageOfKeys("drops:") { names throws(RedisError) in lists.formUnion(names) }
        for list in lists.sorted() {
            let replies = try await queue.redis.pipeline([
                .command(Command("LLEN", list)), .command(Command("LINDEX", list, -1)),
            ])
            guard let count = replies[0].int, let oldest = try? JSON(replies[1].bytes ?? []).array?.last?.string else {
                findings.append(Finding(list, "it must be a list of files", "rename or delete it"))
                continue
            }
            guard now - (Int64(oldest) ?? 0) > 60_000 else { continue }
            findings.append(
                Finding(
                    list, "\(count) files are to be deleted, and no worker serves their store",
                    "start a worker with that root, or delete the list to keep them"))
        }
        return findings
    }

    /// What workers took and never claimed comes back as long as they are known.
    func checkHeld(repairing: Bool) async throws(RedisError) -> [Finding] {
        var findings: [Finding] = []
        for list in try await heldLists() {
            let worker = String(list.dropFirst(queue.keys.held("").count))
            let replies = try await queue.redis.pipeline([
                .command(Command("LLEN", list)), .command(Command("ZSCORE", queue.keys.workers, worker)),
            ])
            if case .error = replies[0] {
                findings.append(Finding(list, "it must be a list", "rename or delete it"))
            } else if replies[0].int ?? 0 > 0, replies[1] == .null {
                if repairing { try await recover(worker) }
                findings.append(
                    Finding(
                        list, "its worker is not known, so nobody puts back what it holds",
                        "--repair puts it back to the front of the line", isRepaired: repairing))
            }
        }
        return findings
    }

    private func recover(_ worker: String) async throws(RedisError) {
        var reply: RedisValue
        repeat {
            reply = try await queue.redis.run(
                queue.functions.recover, keys: queue.keys.given(to: worker), arguments: [Token.make(), worker])
        } while reply.string == "0"
    }
}
