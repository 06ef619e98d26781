import Foundation
import Glibc
import HaulBus
import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

@testable import HaulWorker

/// Claims and settles over connections that die, and files of runs that ended without a settle.
@Suite struct UnreportedEndTests {
    static let bytes = FileBytes(seed: 5, count: 3000)

    @Test("a worker whose connections are killed again and again keeps its runs when it registers")
    func registration() async throws {
        let fleet = try await Fleet()
        let origin = try OriginServer { _ in
            var reply = OriginReply(body: Array("small".utf8))
            reply.delay = .milliseconds(5)
            return reply
        }
        let count = 150
        for index in 0..<count { try await fleet.push(#"{"url":"\#(origin.url("/\(index)"))"}"#) }
        try await fleet.withWorker("w", slots: 8) {
            var settled = 0
            while settled < count {
                // The first kill hits a connection at work, the second one a new connection.
                for _ in 1...2 {
                    try await eventually("a connection to be killed", within: .seconds(60)) {
                        try await fleet.queue.redis.send(
                            Command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
                        ).int != 0
                    }
                }
                let goal = min(count, settled + 15)
                try await eventually("more to be settled", within: .seconds(60)) {
                    settled = try await fleet.queue.stats().counts[.completed] ?? 0
                    return settled >= goal
                }
            }
        }
        #expect(Set(origin.requests.map(\.path)).count == count)
        #expect(origin.requests.count == count)
    }

    @Test("a job that arrives during a shutdown is done or returned to the queue") func lastMoment() async throws {
        let fleet = try await Fleet()
        let origin = try OriginServer { _ in OriginReply(body: Array("small".utf8)) }
        for round in 0..<40 {
            let worker = try fleet.worker("w\(round)") {
                $0.slots = 8
                $0.graceTime = .seconds(3)
            }
            let running = Task { try await worker.run() }
            try await eventually(every: .milliseconds(5)) { try await fleet.server.statistic("blocked_clients") == 1 }
            async let pushing: Void = {
                for number in 0..<6 { try await fleet.push(#"{"url":"\#(origin.url("/\(round)-\(number)"))"}"#) }
            }()
            try? await Task.sleep(for: .microseconds(Int.random(in: 0...2500)))
            running.cancel()
            try await running.value
            try await pushing
            #expect(try await fleet.queue.stats().counts[.running] == 0)
        }
        try await fleet.expectOrder()
    }

    @Test("a run that is settled while a tick for it is held up is not logged as fenced") func settled() async throws {
        let fleet = try await Fleet()
        let gate = Latch()
        let origin = try OriginServer { request in
            var reply = OriginReply.file(Self.bytes, to: request)
            reply.hold = (100, gate)
            return reply
        }
        let logged = Shared<[String]>([])
        let worker = try fleet.worker("w", log: Warnings.log(to: logged)) { $0.policy.lease = .seconds(120) }
        let running = Task { try await worker.run() }
        try await fleet.push(#"{"url":"\#(origin.url("/a"))","id":"a","path":"a"}"#)
        try await fleet.wait("a", for: .running)
        /// The worker's line in CLIENT LIST while a function that it called is held up.
        func heldUp() async throws -> Substring? {
            try await fleet.server.cli("CLIENT", "LIST").split(separator: "\n")
                .first { $0.contains("name=haul-w ") && $0.contains("cmd=fcall") }
        }
        try await fleet.server.cli("CLIENT", "PAUSE", "600000", "WRITE")
        var lost: Substring?
        try await eventually("a tick") {
            lost = try await heldUp()?.split(separator: " ").first
            return lost != nil
        }
        try await fleet.server.cli("CLIENT", "KILL", "ID", String(lost!.dropFirst("id=".count)))
        // The next tick registers the worker again before anything else.
        try await eventually("the registration") { try await heldUp().map { !$0.hasPrefix("\(lost!) ") } ?? false }
        gate.open()
        try await eventually("the settle behind it") { try await heldUp().map { !$0.contains(" qbuf=0 ") } ?? false }
        try await fleet.server.cli("CLIENT", "UNPAUSE")
        try await fleet.wait("a", for: .completed)
        try await waitForTicks(of: fleet.queue)
        #expect(!logged.value.contains { $0.contains("fenced") }, "\(logged.value)")
        running.cancel()
        try await running.value
    }

    /// Waits until a worker that has lost its connections has registered again, which comes before its second tick from
    /// now.
    private func waitForTicks(of queue: Queue) async throws {
        for _ in 1...2 {
            let tick = try await queue.redis.send(Command("GET", queue.keys.tick)).string
            try await eventually("a tick") {
                try await queue.redis.send(Command("GET", queue.keys.tick)).string != tick
            }
        }
    }

    @Test("a blocking wait that only the worker knows to be lost claims no job") func lostWait() async throws {
        let fleet = try await Fleet()
        let origin = try OriginServer { .file(Self.bytes, to: $0) }
        try await fleet.queue.redis.send(Command("PING"))
        let own = LostConnections.sockets(to: fleet.server.socket)
        try await fleet.withWorker("w") {
            // From now on the server knows the functions. So the claim behind the lost wait would be executed, too.
            try await fleet.push(#"{"url":"\#(origin.url("/a"))","id":"i"}"#)
            try await fleet.wait("i", for: .completed)
            try await eventually { try await fleet.server.statistic("blocked_clients") == 1 }
            let connections = LostConnections(to: fleet.server.socket, except: own)
            try await waitForTicks(of: fleet.queue)
            try await eventually { try await fleet.server.statistic("blocked_clients") >= 1 }
            try await fleet.push(#"{"url":"\#(origin.url("/b"))","id":"j"}"#)
            try await fleet.wait("j", for: .completed)
            // No lease had to lapse.
            #expect(try await fleet.queue.job("j")?.integer("crashes") ?? 0 == 0)
            #expect(origin.requests.map(\.path) == ["/a", "/b"])
            withExtendedLifetime(connections) {}
        }
    }

    @Test("a blocking wait that is lost while no slot is free claims no job either")
    func lostIdleWait() async throws {
        let fleet = try await Fleet()
        let latch = Latch()
        let origin = try OriginServer { request in
            if request.path == "/a" { latch.wait() }
            return .file(Self.bytes, to: request)
        }
        let other = Queue(QueueName("other")!, redis: fleet.queue.redis)
        try await fleet.queue.redis.send(Command("PING"))
        let own = LostConnections.sockets(to: fleet.server.socket)
        try await fleet.withWorker(
            "w", slots: 1, { $0.queues = [ServedQueue(.default), ServedQueue(QueueName("other")!)] }
        ) {
            try await eventually { try await fleet.server.statistic("blocked_clients") == 2 }
            try await fleet.push(#"{"url":"\#(origin.url("/a"))","id":"i"}"#)
            try await fleet.wait("i", for: .running)
            let connections = LostConnections(to: fleet.server.socket, except: own)
            try await waitForTicks(of: other)
            try await other.redis.send(
                Command("LPUSH", other.keys.jobs, #"{"url":"\#(origin.url("/b"))","id":"j"}"#))
            #expect(try await other.redis.send(Command("LLEN", other.keys.jobs)).int == 1)
            latch.open()
            try await eventually { try await other.job("j")?.state == .completed }
            #expect(try await other.job("j")?.integer("crashes") ?? 0 == 0)
            withExtendedLifetime(connections) {}
        }
    }

    @Test("a file that was placed by a run without a settle counts as the job's own") func unsettled() async throws {
        let fleet = try await Fleet()
        let origin = try OriginServer { .file(Self.bytes, to: $0) }
        // As after a kill between the link and the settle, before the first checkpoint.
        let partial = ".haul-\(PartialKey.of("j", in: .default))-\(String(repeating: "0", count: 32))"
        let file = try #require(fopen(fleet.root.file(partial), "w"))
        fclose(file)
        #expect(link(fleet.root.file(partial), fleet.root.file("a.bin")) == 0)
        try await fleet.withWorker("w") {
            try await fleet.push(#"{"url":"\#(origin.url("/a"))","id":"j","path":"a.bin"}"#)
            try await fleet.wait("j", for: .completed)
            try await eventually("partial files to be removed") { fleet.root.names == ["a.bin"] }
        }
        #expect(fleet.root.holds("a.bin", Self.bytes))
    }

    @Test("the hash of a worker that dies before its first tick expires") func firstTick() async throws {
        let fleet = try await Fleet()
        let identity = WorkerIdentity(name: "brief", store: "s")
        #expect(try await fleet.queue.register(identity, fields: [], known: []))
        let left = try await fleet.queue.redis.send(Command("PTTL", fleet.queue.keys.worker("brief"))).int
        #expect(try #require(left) > 0)
    }

    @Test("a file that a lost run had placed before its job was cancelled counts as the job's own")
    func placedAndCancelled() async throws {
        let fleet = try await Fleet()
        let gate = Latch()
        let bytes = FileBytes(seed: 6, count: 2_000_000)
        let origin = try OriginServer { request in
            var reply = OriginReply.file(bytes, to: request)
            reply.hold = (100_000, gate)
            return reply
        }
        let element = #"{"url":"\#(origin.url("/a"))","id":"j","path":"a.bin"}"#
        try await fleet.withWorker("w") {
            try await fleet.push(element)
            try await eventually { try await fleet.queue.job("j")?.offsets.isEmpty == false }
            try await fleet.queue.request(.paused, of: ["j"])
            try await fleet.wait("j", for: .paused)
            // As if the run had continued to its end and placed the file, and its settle had been lost.
            let partial = try #require(fleet.root.names.first { $0.hasPrefix(".haul-") })
            try Data(bytes.all).write(to: URL(filePath: fleet.root.file(partial)))
            #expect(link(fleet.root.file(partial), fleet.root.file("a.bin")) == 0)
            try await fleet.queue.request(.cancelled, of: ["j"])
            try await fleet.wait("j", for: .cancelled)
            gate.open()
            try await fleet.push(element)
            try await fleet.wait("j", for: .completed)
            try await eventually("partial files to be removed") { fleet.root.names == ["a.bin"] }
        }
        #expect(fleet.root.holds("a.bin", bytes))
    }
}
