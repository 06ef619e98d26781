import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

@testable import HaulBus

/// The timestamps of pushes and control operations.
@Suite struct TimestampTests {
    /// Asks at `now` as a call does that begins after all others have ended.
    private func wait(_ order: inout TimestampOrder, _ call: DatedCall, _ now: Int64) -> Int64 {
        order.wait(of: call, at: now, after: order.latest)
    }

    @Test("pushes of different jobs share a millisecond, and a second push of a job waits for the next one")
    func pushes() {
        var order = TimestampOrder()
        for number in 0..<50 { #expect(wait(&order, .push(["j\(number)"]), 1000) == 0) }
        #expect(wait(&order, .push(["x", "j7"]), 1000) > 0)
        #expect(wait(&order, .push(["x"]), 1000) == 0)
        #expect(wait(&order, .push(["j7"]), 1001) == 0)
        // The ids of a long push are not kept, so that all others wait.
        #expect(wait(&order, .push((0..<1000).map { "k\($0)" }), 1001) == 0)
        #expect(wait(&order, .push(["y"]), 1001) > 0 && wait(&order, .push(["y"]), 1002) == 0)
    }

    @Test("operations follow pushes within a millisecond, and a push waits until an operation has passed")
    func operations() {
        var order = TimestampOrder()
        #expect(wait(&order, .push(["a"]), 1000) == 0)
        for _ in 0..<3 { #expect(wait(&order, .operation, 1000) == 0) }
        #expect(wait(&order, .push(["b"]), 1000) > 0)
        #expect(wait(&order, .push(["b"]), 1001) == 0)
    }

    @Test("the replies to two calls may be read in another order, and a clock that falls back is waited for")
    func clocks() {
        var order = TimestampOrder()
        #expect(order.wait(of: .push(["a"]), at: 1000, after: 0) == 0)
        #expect(order.wait(of: .push(["b"]), at: 1001, after: 1000) == 0)
        // It has asked before the second one was answered.
        #expect(order.wait(of: .push(["c"]), at: 1000, after: 1000) == 0)
        #expect(order.wait(of: .push(["a"]), at: 1000, after: 1000) > 0)
        #expect(order.wait(of: .operation, at: 700, after: 1001) == 301)
        for now in Int64(1002)...3000 { #expect(order.wait(of: .operation, at: now, after: now - 1) == 0) }
        // What is not known any more counts as taken.
        #expect(order.wait(of: .push(["d"]), at: 1500, after: 1400) > 0)
        // Another server's clock is used as it is.
        #expect(order.wait(of: .push(["d"]), at: 2000, after: 3000) == 0 && order.latest == 2000)
    }

    @Test("however many timestamps a process takes, none is ahead of Redis' clock, and calls of a job are in order")
    func load() async throws {
        let f = try await QueueFixture()
        let queue = f.queue
        try await withThrowingTaskGroup(of: Void.self) { group in
            for task in 0..<16 {
                group.addTask {
                    for number in 0..<40 {
                        var last: Int64 = 0
                        for round in 0..<6 {
                            // A push, an operation or two, and the next push.
                            let isPush = round % 3 == 0
                            let call = isPush ? DatedCall.push(["j\(task)-\(number)"]) : .operation
                            let timestamp = try await queue.timestamp(of: call)
                            let now = try await queue.time()
                            #expect(timestamp <= now, "\(timestamp - now) ms ahead")
                            #expect(isPush ? timestamp > last : timestamp >= last)
                            last = timestamp
                        }
                    }
                }
                group.addTask {
                    for number in 0..<400 { _ = try await queue.timestamp(of: .push(["k\(task)-\(number)"])) }
                }
            }
            try await group.waitForAll()
        }
    }

    @Test("a cancel right after a push stops it, and a push right after a cancel is done, however fast they follow")
    func order() async throws {
        let f = try await QueueFixture()
        for number in 0..<20 {
            // Others take timestamps meanwhile.
            async let others: Void = {
                for other in 0..<20 { _ = try await f.queue.timestamp(of: .push(["o\(number)-\(other)"])) }
            }()
            let element = try Element(JSON(#"{"url":"http://h/\#(number)","id":"j\#(number)"}"#))
            try await f.queue.push(now: [element])
            try await f.queue.request(.cancelled, of: [element.id])
            if number % 2 == 1 { try await f.queue.push(now: [element]) }
            try await others
            try await f.tick()
        }
        var claimed: [String] = []
        while let claim = try await f.claim() { claimed.append(claim.run.id) }
        #expect(claimed == (0..<20).filter { $0 % 2 == 1 }.map { "j\($0)" })
        try await f.expectOrder()
    }
}
