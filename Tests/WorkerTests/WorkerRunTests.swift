import HaulBus
import HaulContract
import HaulHTTP
import HaulRedis
import HaulTestSupport
import Testing

@testable import HaulWorker

@Suite struct WorkerRunTests {
    static let bytes = FileBytes(seed: 21, count: 2_000_000)

    @Test("a plain LPUSH is downloaded, its events are published, and its file is right") func simple() async throws {
        let fleet = try await Fleet()
        let origin = try OriginServer { .file(Self.bytes, to: $0) }
        let names = Shared<[String]>([])
        let numbers = Shared<[Int64]>([])
        let subscribed = Shared(false)
        let subscription = fleet.queue.events()
        let listening = Task {
            for await element in subscription {
                switch element {
                case .subscribed: subscribed.value = true
                case .message(_, let payload):
                    guard let event = Event(payload) else { continue }
                    names.change { $0.append(event.name) }
                    // The first `seq` is a time in unix ms.
                    let first = numbers.change {
                        $0.append(event.sequence ?? 0); return $0[0]
                    }
                    #expect(event.sequence == first + Int64(names.value.count) - 1 && first > 1_700_000_000_000)
                    #expect(event["meta"]?.text == (event.name == "progress" ? nil : #"{"a":[]}"#))
                    if event.name == "warning" {
                        #expect(event["message"]?.string == "unknown fields are ignored: nice")
                    }
                case .interrupted: break
                }
            }
        }
        try await eventually { subscribed.value }
        try await fleet.withWorker("w") {
            try await fleet.push(#"{"url":"\#(origin.url("/d/a.bin"))","id":"j","meta":{"a":[]},"nice":1}"#)
            try await fleet.wait("j", for: .completed)
        }
        try await eventually { names.value.last == "completed" }
        listening.cancel()
        #expect(names.value.filter { $0 != "progress" } == ["warning", "started", "completed"])
        #expect(fleet.root.holds("a.bin", Self.bytes))
        #expect(fleet.root.names == ["a.bin"])
    }

    @Test("jobs are paused on one worker, continued on another, and cancelled on a third")
    func handover() async throws {
        let fleet = try await Fleet()
        let (first, second) = (Latch(), Latch())
        defer { second.open() }
        let origin = try OriginServer { request in
            var reply = OriginReply.file(Self.bytes, to: request)
            reply.hold = (100_000, ["/a", "/b"].contains(request.path) ? first : second)
            return reply
        }
        try await fleet.withWorker("one") {
            try await fleet.push(#"{"url":"\#(origin.url("/a"))","id":"a","connections":1}"#)
            try await fleet.push(#"{"url":"\#(origin.url("/b"))","id":"b"}"#)
            for id in ["a", "b"] {
                try await eventually("\(id) to have a checkpoint") {
                    try await fleet.queue.job(id)?.offsets.isEmpty == false
                }
            }
            try await fleet.queue.request(.paused, of: ["a"])
            try await fleet.wait("a", for: .paused)
        }
        // The shutdown has returned the other job to the queue, and no attempt is counted.
        #expect(try await fleet.state("b") == .queued)
        #expect(try await fleet.queue.job("b")?["attempt"] == nil)
        #expect(try await fleet.queue.workers().isEmpty)
        for id in ["a", "b"] {
            let record = try #require(try await fleet.queue.job(id))
            #expect(try #require(record.integer("received")) >= record.offsets.count, "\(id)")
        }
        let offsets = try #require(try await fleet.queue.job("a")?.offsets)
        first.open()
        try await fleet.withWorker("two") {
            try await fleet.push(#"{"id":"a"}"#)
            try await fleet.wait("a", for: .completed)
            try await fleet.wait("b", for: .completed)
        }
        #expect(fleet.root.holds("a", Self.bytes) && fleet.root.holds("b", Self.bytes))
        #expect(origin.requests.contains { $0.path == "/a" && $0.headers["range"] == "bytes=\(offsets.end)-" })
        try await fleet.withWorker("three") {
            try await fleet.push(#"{"url":"\#(origin.url("/c"))","id":"c"}"#)
            try await eventually { try await fleet.queue.job("c")?.offsets.isEmpty == false }
            try await fleet.queue.request(.cancelled, of: ["c"])
            try await fleet.wait("c", for: .cancelled)
            try await eventually("the partial file to be removed") { fleet.root.names == ["a", "b"] }
        }
        try await fleet.withWorker("four") {
            try await fleet.push(#"{"url":"\#(origin.url("/d"))","id":"d"}"#)
            try await eventually { try await fleet.queue.job("d")?.offsets.isEmpty == false }
            try await fleet.queue.request(.paused, of: ["d"])
            try await fleet.wait("d", for: .paused)
            try await fleet.queue.request(.cancelled, of: ["d"])
            try await fleet.wait("d", for: .cancelled)
            try await eventually("a paused job's partial file to be removed, too") { fleet.root.names == ["a", "b"] }
        }
    }

    @Test("a bad job fails with its code, is retried if that helps, and other jobs run") func failures() async throws {
        let fleet = try await Fleet()
        let origin = try OriginServer { request in
            request.path == "/flaky" && request.number < 3
                ? OriginReply(503, headers: [("Retry-After", "0")])
                : OriginReply(request.path == "/missing" ? 404 : 200, body: [1])
        }
        try await fleet.withWorker("w") {
            for (id, path) in [("m", "/missing"), ("f", "/flaky"), ("g", "/good")] {
                try await fleet.push(#"{"url":"\#(origin.url(path))","id":"\#(id)"}"#)
            }
            try await fleet.push(#"{"url":"http://127.0.0.1:1/","id":"c","retries":0}"#)
            try await fleet.wait("m", for: .failed)
            try await fleet.wait("c", for: .failed)
            try await fleet.wait("g", for: .completed)
            try await fleet.wait("f", for: .completed)
        }
        #expect(try await fleet.queue.job("m")?["error"] == "http_404")
        #expect(try await fleet.queue.job("c")?["error"] == "connect")
        let flaky = try #require(try await fleet.queue.job("f"))
        #expect(flaky["attempt"] == "2")
        let failures = try JSON(#require(flaky["failures"])).array ?? []
        #expect(failures.map { $0["error"]?.string } == ["http_503", "http_503"])
        for failure in failures {
            let (started, ended) = (failure["started"]?.integer ?? 0, failure["ended"]?.integer ?? 0)
            #expect(started > 0 && started <= ended && failure["worker"]?.string == "w")
            #expect(failure["message"]?.string?.isEmpty == false && failure["received"]?.integer == 0)
        }
        #expect(try await fleet.queue.job("g")?["failures"] == nil)
    }

    @Test("a job keeps its newest ten failures, whatever its hash holds", arguments: [nil, "[", "{}", "[1,{}]"])
    func tenFailures(known: String?) throws {
        var text = known
        for number in 1...12 {
            text = PastFailures.text(
                text, adding: Failure(.connect, String(repeating: "é", count: 300)), started: 1,
                ended: Int64(number), worker: "w", received: 0)
        }
        let failures = try JSON(#require(text)).array ?? []
        #expect(failures.map { $0["ended"]?.integer } == (3...12).map(Int64.init))
        #expect(failures.last?["message"]?.string == String(repeating: "é", count: 200))
    }

    @Test("an attempt that makes progress costs no retry, and resets the count") func progress() async throws {
        let fleet = try await Fleet()
        // Every other request is refused, and each of the other responses is cut. So there is a failure after each 512
        // KiB.
        let origin = try OriginServer { request in
            guard request.number % 2 == 1 else { return OriginReply(503, headers: [("Retry-After", "0")]) }
            var reply = OriginReply.file(Self.bytes, to: request)
            (reply.cut, reply.end) = (512 << 10, .fin)
            return reply
        }
        try await fleet.withWorker("w") {
            try await fleet.push(#"{"url":"\#(origin.url("/a"))","id":"a","connections":1,"retries":0}"#)
            try await fleet.wait("a", for: .completed)
        }
        #expect(fleet.root.holds("a", Self.bytes))
        #expect(origin.bytesSent("/a") == Self.bytes.count)
        #expect(try await fleet.queue.job("a")?["attempt"] == nil)
    }

    @Test("loopback addresses are refused by default, without a connection") func policy() async throws {
        let fleet = try await Fleet()
        let origin = try OriginServer { _ in OriginReply(body: [1]) }
        try await fleet.withWorker("w", { $0.addressPolicy = .restricted() }) {
            try await fleet.push(#"{"url":"\#(origin.url("/a"))","id":"a"}"#)
            try await fleet.wait("a", for: .failed)
        }
        #expect(try await fleet.queue.job("a")?["error"] == "address_forbidden")
        #expect(origin.connections == 0)
    }

    @Test("many small files arrive, are right and are settled, with few commands each") func small() async throws {
        let fleet = try await Fleet()
        let count = 2000
        let origin = try OriginServer { request in
            .file(FileBytes(seed: UInt64(request.path.dropFirst())!, count: 10_240), to: request)
        }
        for index in 0..<count { try await fleet.push(#"{"url":"\#(origin.url("/\(index)"))"}"#) }
        try await fleet.queue.redis.send(Command("CONFIG", "RESETSTAT"))
        let start = ContinuousClock.now
        try await fleet.withWorker("w", slots: 8) {
            try await eventually("all to be settled", within: .seconds(120), every: .milliseconds(200)) {
                try await fleet.queue.stats().counts[.completed] == count
            }
        }
        let seconds = (ContinuousClock.now - start).secondsValue
        for index in 0..<count {
            #expect(fleet.root.holds("\(index)", FileBytes(seed: UInt64(index), count: 10_240)))
        }
        #expect(fleet.root.names.count == count)
        let info = try #require(try await fleet.queue.redis.send(Command("INFO", "commandstats")).string)
        let calls = info.split(separator: "\r\n").compactMap { line -> Int? in
            guard line.hasPrefix("cmdstat_fcall:") || line.hasPrefix("cmdstat_blmove:") else { return nil }
            return line.split(separator: ":calls=").last?.split(separator: ",").first.flatMap { Int($0) }
        }
        let perJob = Double(calls.reduce(0, +)) / Double(count)
        print("small files: \(perJob) commands per job besides its LPUSH, the ticks included (\(seconds) s in all)")
        #expect(perJob < 1.5 + seconds / Double(count) * 5)
    }

    @Test("a pause is applied although every pub/sub message is lost") func deaf() async throws {
        let fleet = try await Fleet()
        let gate = Latch()
        defer { gate.open() }
        let origin = try OriginServer { request in
            var reply = OriginReply.file(Self.bytes, to: request)
            reply.hold = (100_000, gate)
            return reply
        }
        try await fleet.withWorker("w") {
            try await fleet.push(#"{"url":"\#(origin.url("/a"))","id":"a"}"#)
            try await fleet.wait("a", for: .running)
            // Only the hash is written, and no message is published on the control channel.
            try await fleet.queue.redis.send(Command("HSET", fleet.queue.keys.want, "a", "paused"))
            try await fleet.wait("a", for: .paused)
        }
    }

    @Test("a download continues while Redis restarts, and is settled afterwards") func restart() async throws {
        let fleet = try await Fleet(["--appendonly", "yes", "--appendfsync", "always"])
        let gate = Latch()
        let origin = try OriginServer { request in
            var reply = OriginReply.file(Self.bytes, to: request)
            reply.hold = (100_000, gate)
            return reply
        }
        try await fleet.withWorker("w") {
            try await fleet.push(#"{"url":"\#(origin.url("/a"))","id":"a","connections":1}"#)
            try await fleet.wait("a", for: .running)
            try await fleet.server.restart(by: 9)
            gate.open()
            try await eventually(within: .seconds(30)) { (try? await fleet.state("a")) == .completed }
        }
        #expect(origin.requests.count == 1)
        #expect(fleet.root.holds("a", Self.bytes))
    }

    @Test("a worker serves several queues, and the first one comes first") func queues() async throws {
        let fleet = try await Fleet()
        let origin = try OriginServer { _ in OriginReply(body: [1]) }
        let high = Queue(QueueName("high")!, redis: fleet.queue.redis)
        for index in 0..<5 {
            try await fleet.push(#"{"url":"\#(origin.url("/low\(index)"))"}"#)
            try await fleet.queue.redis.send(
                Command("LPUSH", high.keys.jobs, #"{"url":"\#(origin.url("/high\(index)"))"}"#))
        }
        try await fleet.withWorker(
            "w", slots: 1, { $0.queues = [ServedQueue(QueueName("high")!), ServedQueue(.default)] }
        ) {
            for queue in [high, fleet.queue] {
                try await eventually(within: .seconds(30)) { try await queue.stats().counts[.completed] == 5 }
            }
        }
        // One job of the other queue may have been claimed while the worker waited for both.
        let order = origin.requests.map { $0.path.hasPrefix("/high") }
        #expect(order.prefix(6).count { $0 } == 5)
    }

    @Test("queues are served in strict order without weights, and in proportion with weights") func order() {
        var generator = SystemRandomNumberGenerator()
        #expect(QueueOrder(weights: [nil, nil, nil]).draw(using: &generator) == [0, 1, 2])
        let weighted = QueueOrder(weights: [9, 1])
        let first = (0..<2000).count { _ in weighted.draw(using: &generator).first == 0 }
        #expect((1600...1950).contains(first))
        var order = QueueOrder(weights: [nil, nil])
        order.record(0, wasEmpty: true)
        #expect(order.candidates(in: [0, 1]) == [1])
        #expect(order.candidates(in: [0, 1], at: .now + .seconds(2)) == [0, 1])
    }

    @Test("a slot stays with a partition for some jobs, and all partitions of a queue get the same share")
    func partitions() {
        var generator = SystemRandomNumberGenerator()
        let order = QueueOrder(weights: [nil, nil], partitions: [1, 4])
        var (current, stays, counts) = (2, 0, [Int](repeating: 0, count: 5))
        for _ in 0..<20_000 {
            let drawn = order.draw(after: current, using: &generator)
            #expect(drawn.first == 0 && Set(drawn) == Set(0..<5))
            stays += drawn[1] == current ? 1 : 0
            current = drawn[1]
            counts[current] += 1
        }
        #expect((0.93...0.97).contains(Double(stays) / 20_000), "\(stays)")
        #expect(counts[1...].allSatisfy { (3000...7000).contains($0) }, "\(counts)")
    }
}
