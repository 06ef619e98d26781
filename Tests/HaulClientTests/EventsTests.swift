import Foundation
import Glibc
import HaulClient
import HaulTestSupport
import Testing

@Suite struct EventsTests {
    @Test("events come in order and once each, and end with the job") func order() async throws {
        let bench = try await ClientBench()
        let queue = try bench.queue()
        let handle = try await queue.push(bench.job("/held", id: "a"))
        let following = Task { try await collect(handle.events) }
        try await bench.waitForListener("a")
        let worker = try bench.worker()
        try await bench.wait("a", for: "running")
        let late = Task { try await collect(queue.job("a").events) }
        try await eventually("the connection for events") {
            try await bench.server.cli("CLIENT", "LIST").contains("haul-client-events")
        }
        bench.gate.open()
        let updates = try await value(of: following)
        #expect(updates.first?.name == "started" && updates.last?.name == "completed")
        #expect(updates.last?.finalState == .completed && updates.last?.received == ClientBench.bytes.count)
        let places = updates.compactMap(\.position)
        #expect(places.count == updates.count && places == Array(Set(places)).sorted())
        // A consumer that starts late gets the job's status first.
        let lateUpdates = try await value(of: late)
        #expect(lateUpdates.last?.finalState == .completed)
        #expect(lateUpdates.first?.name.hasPrefix("is ") == true)
        // A consumer that starts after the end gets the final status at once.
        let after = Task { try await collect(handle.events) }
        #expect(try await value(of: after).map(\.name) == ["is completed"])
        await queue.close()
        worker.kill(SIGTERM)
        _ = try await worker.wait()
    }

    @Test(
        "events that are missed while the connection is lost are made up for from the hashes", .timeLimit(.minutes(2)))
    func lostConnections() async throws {
        let bench = try await ClientBench()
        // New connections can be opened only while this link exists.
        let link = bench.server.directory.file("link")
        try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: bench.server.socket)
        let queue = try HaulQueue(redis: "unix://\(link)")
        let worker = try bench.worker()
        let handles = try await queue.push(["a", "b", "c"].map { (id: String) in bench.job("/held/\(id)", id: id) })
        let all = Task {
            var ended: [String: JobUpdate] = [:]
            for try await update in queue.events where update.finalState != nil {
                ended[update.id] = update
                if ended.count == 3 { break }
            }
            return ended
        }
        let following = Task { try await collect(handles[0].events) }
        let result = Task { try await handles[1].result(timeout: .seconds(60)) }
        for handle in handles { try await bench.wait(handle.id, for: "running") }
        for id in ["a", "b"] { try await bench.waitForListener(id) }
        try await eventually("the subscription to all events") { try await bench.server.cli("PUBSUB", "NUMPAT") == "1" }
        try FileManager.default.removeItem(atPath: link)
        #expect(try await bench.server.cli("CLIENT", "KILL", "TYPE", "pubsub") == "2")
        bench.gate.open()
        for handle in handles { try await bench.wait(handle.id, for: "completed") }
        try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: bench.server.socket)
        #expect(try await value(of: result).state == .completed)
        #expect(try await value(of: following).last?.name == "is completed")
        #expect(
            try await value(of: all).mapValues(\.name) == [
                "a": "is completed", "b": "is completed", "c": "is completed",
            ])
        await queue.close()
        worker.kill(SIGTERM)
        _ = try await worker.wait()
    }

    @Test("a result and events outlast a restart of Redis", .timeLimit(.minutes(2))) func restart() async throws {
        let bench = try await ClientBench(["--appendonly", "yes", "--appendfsync", "always"])
        let queue = try bench.queue()
        let worker = try bench.worker()
        let handle = try await queue.push(bench.job("/held", id: "a"))
        let following = Task { try await collect(handle.events) }
        let result = Task { try await handle.result(timeout: .seconds(90)) }
        try await bench.wait("a", for: "running")
        try await bench.waitForListener("a")
        try await bench.server.restart(by: SIGKILL)
        bench.gate.open()
        #expect(try await value(of: result).state == .completed)
        let updates = try await value(of: following)
        #expect(updates.last?.finalState == .completed)
        let places = updates.compactMap(\.position)
        #expect(places == Array(Set(places)).sorted())
        #expect(try await queue.push(bench.job("/x")).result(timeout: .seconds(60)).state == .completed)
        await queue.close()
        worker.kill(SIGTERM)
        _ = try await worker.wait()
    }

    @Test("events go on after Redis was away while a missed event was to be made up for", .timeLimit(.minutes(2)))
    func unreadable() async throws {
        let server = try await RedisServer()
        // New connections can be opened only while this link exists.
        let link = server.directory.file("link")
        try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: server.socket)
        let queue = try HaulQueue(redis: "unix://\(link)")
        let following = Task { try await collect(queue.job("a").events) }
        let all = Task {
            for try await update in queue.events where update.finalState != nil { return update.name }
            return "nothing"
        }
        try await eventually("both subscriptions") {
            let numbers = try await (server.cli("PUBSUB", "NUMPAT"), server.cli("PUBSUB", "CHANNELS"))
            return numbers.0 == "1" && numbers.1 == "haul:{default}:events:a"
        }
        func publish(_ place: Int) async throws {
            let event = #"{"v":1,"event":"progress","id":"a","queue":"default","epoch":1,"seq":\#(place),"at":1}"#
            #expect(try await server.cli("PUBLISH", "haul:{default}:events:a", event) == "2")
        }
        try await publish(1)
        try FileManager.default.removeItem(atPath: link)
        let commands = try await server.cli("CLIENT", "LIST").split(separator: "\n")
            .first { $0.contains("name=haul-client ") }?.firstMatch(of: /id=([0-9]+)/)
        let id = try #require(commands.map { String($0.1) })
        #expect(try await server.cli("CLIENT", "KILL", "ID", id) == "1")
        try await publish(3)
        // This waits for Redis as long as the reads of both sequences do, and begins after them.
        await #expect { try await queue.stats() } throws: { ($0 as? HaulError)?.code == .unreachable }
        try await server.cli(
            "HSET", "haul:{default}:job:a", "state", "completed", "epoch", "1", "seq", "4", "file", "f")
        try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: server.socket)
        #expect(try await value(of: following).map(\.name) == ["progress", "is completed"])
        #expect(try await value(of: all) == "is completed")
        await queue.close()
    }

    @Test("a job that ended long ago is not news, although a schedule keeps it among those that end now")
    func kept() async throws {
        let server = try await RedisServer()
        let queue = try HaulQueue(redis: server.url)
        var events = queue.events.makeAsyncIterator()
        try await eventually("the subscription to all events") { try await server.cli("PUBSUB", "NUMPAT") == "1" }
        let ends = """
            local now = redis.call('TIME')
            now = now[1] * 1000 + math.floor(now[2] / 1000)
            for id, finished in pairs({ old = now - 3600000, new = now }) do
              redis.call('HSET', 'haul:{default}:job:' .. id, 'state', 'completed', 'epoch', 1, 'seq', 4, 'file', 'f',
                'finished', finished, 'updated', finished)
              redis.call('ZADD', 'haul:{default}:completed', now, id)
            end
            """
        #expect(try await server.cli("EVAL", ends, "0") == "")
        #expect(try await events.next()?.id == "new")
        await queue.close()
    }

    private static var residentBytes: Int {
        let pages = (try? String(contentsOfFile: "/proc/self/statm", encoding: .utf8))?.split(separator: " ")
        return (pages?.dropFirst().first.flatMap { Int($0) } ?? 0) * Int(getpagesize())
    }

    /// The environment variable HAUL_BURST sets the number of events.
    @Test(
        "the buffer of a consumer that does not read is bounded, and the consumer still gets the end",
        .timeLimit(.minutes(3)))
    func burst() async throws {
        let wanted = ProcessInfo.processInfo.environment["HAUL_BURST"].flatMap { Int($0) }
        let count = wanted ?? 150_000
        let server = try await RedisServer()
        let queue = try HaulQueue(redis: server.url)
        var events = queue.events.makeAsyncIterator()
        try await eventually("the subscription to all events") { try await server.cli("PUBSUB", "NUMPAT") == "1" }
        let before = Self.residentBytes
        // Events like those of a worker, at a pace that Redis' output buffer for a client can take.
        let script = """
            local id, from, to = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
            local pad = string.rep('x', 300)
            for seq = from, to do
              redis.call('PUBLISH', 'haul:{default}:events:' .. id, '{"v":1,"event":"progress","id":"' .. id
                .. '","queue":"default","epoch":1,"seq":' .. seq .. ',"at":1700000000000,"pad":"' .. pad .. '"}')
            end
            """
        for start in stride(from: 1, through: count, by: 10_000) {
            let end = min(start + 9_999, count)
            #expect(try await server.cli("EVAL", script, "0", "big", "\(start)", "\(end)") == "")
        }
        // The end of the job, without an event. The consumer has missed messages, so it reads the hashes and finds the
        // end.
        let end = """
            local now = redis.call('TIME')
            redis.call('HSET', 'haul:{default}:job:big', 'state', 'completed', 'epoch', 1, 'seq', ARGV[1], 'file', 'f')
            redis.call('ZADD', 'haul:{default}:completed', now[1] * 1000 + math.floor(now[2] / 1000), 'big')
            """
        #expect(try await server.cli("EVAL", end, "0", "\(count + 1)") == "")
        try await eventually("all messages to be read", within: .seconds(120)) {
            let line = try await server.cli("CLIENT", "LIST", "TYPE", "pubsub")
            return line.contains(" omem=0 ")
        }
        #expect(events.bufferedCount <= 50_001)
        // Other suites run in this process as well, unless HAUL_BURST asks for this test alone.
        if wanted != nil {
            let grown = Self.residentBytes - before
            print("\(count) events: \(events.bufferedCount) wait, and memory has grown by \(grown >> 20) MiB")
            #expect(grown < 256 << 20)
        }
        var (received, last) = (0, JobUpdate?.none)
        while last?.finalState == nil {
            last = try await events.next()
            received += 1
        }
        #expect(last?.name == "is completed" && received < 60_000)
        await queue.close()
    }

    @Test("the end of a job whose event never comes is found in its hash", .timeLimit(.minutes(2)))
    func unheard() async throws {
        let bench = try await ClientBench()
        let queue = try bench.queue()
        let following = Task { try await collect(queue.job("a").events) }
        try await bench.waitForListener("a")
        // As at a node that is cut off from its cluster: the connection stays open, and no message is forwarded.
        try await bench.server.cli(
            "HSET", "haul:{default}:job:a", "id", "a", "state", "completed", "epoch", "1", "seq", "5", "url",
            "http://h/a")
        #expect(try await following.value.last?.name == "is completed")
    }
}
