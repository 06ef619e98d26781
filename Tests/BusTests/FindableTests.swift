import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

@testable import HaulBus

/// After a random history, every id that is in any key of the queue is found by the functions that list, show, search,
/// cancel and check jobs.
@Suite struct FindableTests {
    private static let kinds = ["", #","kind":"request""#, #","kind":"later""#]

    private struct History {
        let f: QueueFixture
        var random: SeededGenerator
        var running: [Claim] = []
        var pushed: [String] = []

        mutating func number(_ range: Range<Int>) -> Int { Int.random(in: range, using: &random) }

        mutating func step() async throws {
            let f = f
            switch number(0..<12) {
            case 0..<5:
                let isNew = pushed.isEmpty || number(0..<5) > 0
                let id = isNew ? "j\(pushed.count)" : pushed.randomElement(using: &random)!
                if isNew { pushed.append(id) }
                let kind = FindableTests.kinds.randomElement(using: &random)!
                let more = ["", #","delay":1000"#, #","batch":"b""#, #","reply_to":"me""#, #","deadline":1000"#]
                    .randomElement(using: &random)!
                let group = ["", "", #","group":"g0""#, #","group":"g1""#].randomElement(using: &random)!
                let at = try await f.queue.timestamp(of: .operation)
                try await f.push(
                    #"{"id":"\#(id)","at":\#(at),"url":"http://h\#(number(0..<3))/\#(id)"\#(kind)\#(more)\#(group)}"#)
            case 5:
                let at = try await f.queue.timestamp(of: .operation)
                // An invalid element counts as queued until a worker rejects it.
                let elements = [
                    #"{"url":"http://h\#(number(0..<3))/\#(number(0..<1000))","at":\#(at)}"#, "garbage",
                    #"{"id":"a b","url":"http://h/"}"#, "[\"id\"]", #"{"id":7}"#, "{\"id\":\"cut",
                    #"{"id":"seeming","url":"http://h/","retries":01}"#,
                ]
                try await f.push(elements[max(0, number(0..<12) - 5)])
            case 6, 7: if let claim = try await f.claim() { running.append(claim) }
            case 8:
                guard !running.isEmpty else { return }
                let claim = running.remove(at: number(0..<running.count))
                let ends: [Settlement] = [
                    QueueFixture.done, .failed(Failure(.io, "m"), retryable: true, received: 0),
                    .released(why: "test"), .retry(after: .milliseconds(10), Failure(.connect, "m")),
                ]
                try await f.settle(claim, ends.randomElement(using: &random)!)
            case 9:
                guard let id = pushed.randomElement(using: &random) else { return }
                let operations: [ControlOperation] = [.paused, .cancelled, .running, .removed]
                try await f.queue.request(operations.randomElement(using: &random)!, of: [id])
            case 10:
                // A worker crashes and its jobs are released, or a limit changes.
                if number(0..<4) == 0 {
                    let all = running
                    running = []
                    for claim in all { try await f.settle(claim, .released(why: "crash")) }
                }
                try await f.redis.send(
                    Command(
                        "HSET", f.queue.keys.limits, "h1", #"{"connections":\#(number(0..<2))}"#, "group:g1",
                        #"{"running":\#(number(0..<2))}"#))
            default: running = try await applyOperations(running)
            }
        }

        /// Ticks until no operation waits, and ends the runs that an operation ends.
        func applyOperations(_ claims: [Claim]) async throws -> [Claim] {
            var left = claims
            var isMore = true
            while isMore {
                let reply = try await f.tick(left)
                for claim in left {
                    guard let operation = reply.operations[claim.run.token] else { continue }
                    try await f.settle(claim, operation == .paused ? .paused : .cancelled)
                    left.removeAll { $0.run.token == claim.run.token }
                }
                isMore = reply.hasMoreWork
            }
            return left
        }
    }

    /// The ids in all keys of the queue.
    private func ids(in f: QueueFixture) async throws -> Set<String> {
        var ids: Set<String> = []
        let keys = try await f.redis.send(Command("KEYS", "haul:*")).array?.compactMap(\.string) ?? []
        for key in keys {
            guard let (name, subject) = KeyName.read(key.dropFirst(f.queue.keys.prefix.count)) else { continue }
            switch name {
            case .job, .spec, .offsets: ids.insert(subject)
            case .jobs, .held, .deferredHost, .deferredKind, .deferredGroup:
                let elements = try await f.redis.send(Command("LRANGE", key, 0, -1)).array?.compactMap(\.bytes) ?? []
                for element in elements {
                    let job: ListedJob? = Queue.listed(element)
                    ids.insert(try #require(job, "\(key)").id)
                }
            case .leases, .scheduled, .paused, .completed, .failed, .cancelled, .deadlines, .unannounced, .responses,
                .removed:
                ids.formUnion(try await f.redis.send(Command("ZRANGE", key, 0, -1)).array?.compactMap(\.string) ?? [])
            case .members, .want:
                let fields = try await f.redis.send(Command("HGETALL", key)).dictionary.keys
                ids.formUnion(fields.filter { !$0.hasPrefix("batch/") })
            case .busy, .busyGroup:
                ids.formUnion(try await f.redis.send(Command("SMEMBERS", key)).array?.compactMap(\.string) ?? [])
            default: break
            }
        }
        return ids
    }

    @Test("every counted job is found by lists, searches, cancels and checks", arguments: 0..<4)
    func findsAll(_: Int) async throws {
        let seed = UInt64.random(in: 0..<1_000_000)
        let f = try await QueueFixture()
        try await f.redis.send(Command("HSET", f.queue.keys.limits, "h0", #"{"connections":0}"#))
        var history = History(f: f, random: SeededGenerator(state: seed))
        for _ in 0..<150 { try await history.step() }
        history.running = try await history.applyOperations(history.running)

        let all = try await ids(in: f)
        let records = try await f.queue.jobs(Array(all))
        let known = Dictionary(uniqueKeysWithValues: records.map { ($0.id, $0.state) })
        let waiting = try await f.queue.waiting(for: all)
        let queued = Set(try await f.queue.ids(in: .queued, limit: 100_000))
        #expect(queued.isSuperset(of: waiting.keys), "seed \(seed): \(Set(waiting.keys).subtracting(queued))")
        // Other elements repeat what was settled, or are for jobs that run, are paused or are scheduled.
        for id in queued.subtracting(waiting.keys) where known[id]?.isFinal ?? true {
            let settled = try await f.redis.send(Command("HMGET", f.queue.keys.job(id), "settled_until", "ahead"))
            #expect(settled.array?.contains { $0 != .null } == true, "seed \(seed): \(id) waits")
        }
        for id in all {
            // A removed job, or an id for which there was only an operation, has a tombstone.
            guard known[id] == nil, waiting[id] == nil else { continue }
            let tombstone =
                try await f.redis.send(Command("HMGET", f.queue.keys.job(id), "settled_until", "want_at")).array ?? []
            let isMember = try await f.redis.send(Command("HGET", f.queue.keys.members("b"), id)).string != nil
            #expect(tombstone.contains { $0 != .null } || isMember, "seed \(seed): \(id) is not known")
        }
        let (stats, lists) = (try await f.queue.stats(), try await f.queue.waitingLists())
        #expect(stats.counts[.queued] == lists.count, "seed \(seed)")
        for state in JobState.allCases where state != .queued {
            let listed = try await f.queue.listed(in: state, from: 0, limit: 10_000).map(\.id)
            #expect(stats.counts[state] == listed.count, "seed \(seed)")
            #expect(Set(listed) == Set(known.filter { $0.value == state }.keys), "seed \(seed): \(state)")
        }
        for (id, state) in known where state == .queued { #expect(waiting[id] != nil, "seed \(seed): \(id)") }
        let findings = try await Inspection(f.queue).run()
        #expect(findings.isEmpty, "seed \(seed): \(findings.map { "\($0.subject): \($0.problem)" })")

        // A cancel ends each job that has not ended, without a change of any limit.
        let open = all.filter { known[$0]?.isFinal != true || waiting[$0] != nil }
        try await f.queue.request(.cancelled, of: Array(open))
        history.running = try await history.applyOperations(history.running)
        claims: while true {
            switch try await f.queue.claim(f.worker, token: Token.make()) {
            case .more: continue
            case .job(let claim): Issue.record("seed \(seed): \(claim.run.id) was cancelled, and runs")
            default: break claims
            }
        }
        _ = try await history.applyOperations([])
        for record in try await f.queue.jobs(Array(open)) {
            #expect(record.state.isFinal, "seed \(seed): \(record.id) is \(record.state)")
        }
        let left = try await f.queue.ids(in: .queued, limit: 100)
        #expect(left.isEmpty, "seed \(seed): \(left.map { "\($0) of \(known[$0]?.rawValue ?? "no state")" })")
        #expect(try await f.queue.stats().counts[.queued] == 0, "seed \(seed)")
        try await f.expectOrder()
    }

    @Test("all jobs that ended since a time are read, oldest first, in short calls") func endedSince() async throws {
        let f = try await QueueFixture()
        let script = "for n = 1, 100001 do redis.call('ZADD', KEYS[1], n, 'j' .. n) end"
        try await f.redis.send(Command("EVAL", script, 1, f.queue.keys.index(.completed)))
        #expect(try await f.queue.ids(in: .completed, since: 0) == (1...100_001).map { "j\($0)" })
        #expect(try await f.queue.ids(in: .completed, since: 99_500) == (99_500...100_001).map { "j\($0)" })
        #expect(try await f.queue.ids(in: .completed, since: 0, limit: 250) == (99_752...100_001).map { "j\($0)" })
        #expect(try await f.queue.ids(in: .failed, since: 0).isEmpty)
    }
}
