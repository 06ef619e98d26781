import Glibc
import HaulBus
import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

@testable import HaulWorker

/// Runs that end at the same time.
@Suite struct SettlerTests {
    private static let running = 100
    private static let done = Settlement.completed(
        CompletedFile(
            file: "f", bytes: 3, store: "s", inode: 1, modified: 1, entity: Entity(), source: "http://h/f", validated: 1
        ),
        seconds: 1, unchanged: false)

    private let fleet: Fleet
    private let worker = WorkerIdentity(name: "w", store: "s")
    private let runs: [Run]

    init() async throws {
        fleet = try await Fleet()
        _ = try await fleet.queue.register(worker, fields: [], known: [])
        for index in 0..<Self.running { try await fleet.push(#"{"url":"http://h/\#(index)","id":"r\#(index)"}"#) }
        var runs: [Run] = []
        // One call claims as many as its budget allows.
        while runs.count < Self.running {
            let tokens = (runs.count..<Self.running).map { _ in Token.make() }
            for case .job(let claim) in try await fleet.queue.claim(worker, tokens: tokens) { runs.append(claim.run) }
        }
        self.runs = runs
    }

    private func settle(
        _ ends: [RunEnd], wantsNext: Bool
    ) async -> (replies: [Settler.Reply], errors: [RedisError]) {
        let settler = Settler(fleet.queue)
        return await withTaskGroup(of: Result<Settler.Reply, RedisError>.self) { group in
            for end in ends {
                group.addTask {
                    do throws(RedisError) {
                        return .success(
                            try await settler.send(end, as: worker, nextToken: wantsNext ? Token.make() : nil))
                    } catch {
                        return .failure(error)
                    }
                }
            }
            return await group.reduce(into: ([], [])) { result, one in
                switch one {
                case .success(let reply): result.0.append(reply)
                case .failure(let error): result.1.append(error)
                }
            }
        }
    }

    @Test("runs that end together are settled with few calls, and get a next job as long as there is one")
    func together() async throws {
        let waiting = Self.running / 2
        for index in 0..<waiting { try await fleet.push(#"{"url":"http://h/\#(index)","id":"w\#(index)"}"#) }
        try await fleet.queue.redis.send(Command("CONFIG", "RESETSTAT"))
        let (replies, errors) = await settle(runs.map { RunEnd($0, Self.done) }, wantsNext: true)
        #expect(errors.isEmpty && replies.allSatisfy(\.isOurs))
        let next = replies.compactMap { if case .job(let claim)? = $0.next { claim.run } else { nil } }
        #expect(Set(next.map(\.id)) == Set((0..<waiting).map { "w\($0)" }))
        #expect(Set(next.map(\.token)).count == waiting)
        let statistics = try await fleet.server.cli("INFO", "commandstats")
        let calls = try #require(statistics.firstMatch(of: /cmdstat_fcall:calls=(\d+)/).flatMap { Int($0.1) })
        // Two calls may be sent before there is anything to collect.
        #expect(calls <= 2 + Self.running / 8, "\(calls)")
        for run in runs { #expect(try await fleet.queue.job(run.id)?["state"] == "completed") }
    }

    @Test("runs that end together are settled although Redis refuses one of them") func refused() async throws {
        try await fleet.queue.redis.send(Command("SET", fleet.queue.keys.rejected, "no list"))
        let ends = runs.enumerated().map { index, run in
            RunEnd(run, index == 50 ? .rejected(reason: "test") : Self.done)
        }
        let (replies, errors) = await settle(ends, wantsNext: false)
        #expect(errors.map(\.code) == [.wrongType])
        #expect(replies.count == Self.running - 1 && replies.allSatisfy(\.isOurs))
        for (index, run) in runs.enumerated() {
            #expect(try await fleet.queue.job(run.id)?["state"] == (index == 50 ? "running" : "completed"))
        }
    }

    @Test("runs that end together fail together when Redis can settle none of them") func ailing() async throws {
        try await fleet.server.cli("CLIENT", "PAUSE", "600000", "WRITE")
        let settler = Settler(fleet.queue)
        let many = Array(repeatElement(runs, count: 3).joined())
        let begun = Shared(0)
        async let codes = withTaskGroup(of: RedisError.Code?.self) { group in
            for run in many {
                group.addTask {
                    begun.change { $0 += 1 }
                    do throws(RedisError) {
                        _ = try await settler.send(RunEnd(run, Self.done), as: worker, nextToken: nil)
                        return nil
                    } catch {
                        return error.code
                    }
                }
            }
            return await group.reduce(into: []) { $0.append($1) }
        }
        try await eventually("all runs to be sent") { begun.value == many.count }
        try await fleet.server.cli("CONFIG", "SET", "min-replicas-to-write", "1")
        try await fleet.server.cli("CONFIG", "RESETSTAT")
        try await fleet.server.cli("CLIENT", "UNPAUSE")
        #expect(await codes.allSatisfy { $0 == .noReplicas })
        let statistics = try await fleet.server.cli("INFO", "commandstats")
        let calls = try #require(
            statistics.firstMatch(of: /cmdstat_fcall:.*rejected_calls=(\d+)/).flatMap { Int($0.1) })
        // One batch after another would be ten calls or more.
        #expect(calls <= 5, "\(calls)")
    }

    @Test("a run whose settle Redis refuses keeps its lease and its job, and delays no other run until it is settled")
    func refusedForLong() async throws {
        let fleet = try await Fleet()
        let origin = try OriginServer { _ in OriginReply(body: Array("small".utf8)) }
        try await fleet.queue.redis.send(Command("SET", fleet.queue.keys.rejected, "no list"))
        try await fleet.withWorker("w", slots: 2, { $0.policy.lease = .seconds(2) }) {
            // The claim accepts this host name, and the worker does not.
            try await fleet.push(#"{"url":"http://\#u{2100}.invalid/","id":"bad"}"#)
            try await fleet.wait("bad", for: .running)
            let token = try await fleet.queue.job("bad")?["token"]
            func session() async throws -> String? {
                try await fleet.queue.redis.send(Command("HGET", fleet.queue.keys.worker("w"), "session")).string
            }
            let begun = ContinuousClock.now
            var sessions: Set<String> = []
            var count = 0
            while ContinuousClock.now - begun < .seconds(5) {
                try await fleet.push(#"{"url":"\#(origin.url("/\(count)"))","id":"j\#(count)","path":"\#(count)"}"#)
                try await fleet.wait("j\(count)", for: .completed)
                count += 1
                sessions.insert(try await session() ?? "")
            }
            let job = try #require(try await fleet.queue.job("bad"))
            #expect(job["token"] == token && job.state == .running && job["crashes"] == nil)
            #expect(sessions.count <= 3, "\(sessions)")
            try await fleet.queue.redis.send(Command("DEL", fleet.queue.keys.rejected))
            try await fleet.wait("bad", for: .failed)
        }
    }

    @Test("a worker that Redis has not seen for as long as a reaper waits names no file") func unseen() async throws {
        let fleet = try await Fleet()
        let gate = Latch()
        defer { gate.open() }
        let origin = try OriginServer { request in
            var reply = OriginReply.file(FileBytes(seed: 3, count: 100_000), to: request)
            reply.hold = (90_000, gate)
            return reply
        }
        try await fleet.withWorker("w") {
            try await fleet.push(#"{"url":"\#(origin.url("/a"))","id":"j","path":"a"}"#)
            try await eventually { try await fleet.queue.job("j")?["received"] == "90000" }
            fleet.server.signal(SIGSTOP)
            // The worker relies on its last tick for less than 2.5 s.
            try await Task.sleep(for: .milliseconds(2600))
            gate.open()
            try await Task.sleep(for: .seconds(1))
            let names = fleet.root.names
            fleet.server.signal(SIGCONT)
            #expect(!names.contains("a"), "\(names)")
            try await fleet.wait("j", for: .completed)
            #expect(fleet.root.names.contains("a"))
        }
    }
}
