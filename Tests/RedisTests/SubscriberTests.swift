import HaulTestSupport
import Testing

@testable import HaulRedis

@Suite struct SubscriberTests {
    @Test("a subscription that begins while the last one ends is established") func turns() async throws {
        let server = try await RedisServer()
        let subscriber = Subscriber(try RedisURL(server.url), name: "t")
        for turn in 0..<100 {
            let messages = Subscription(subscriber, channels: ["c"], patterns: turn % 2 == 0 ? ["p*"] : [])
                .makeAsyncIterator()
            guard case .subscribed? = await messages.next(until: .now + .seconds(20)) else {
                Issue.record("turn \(turn): not subscribed")
                return
            }
        }
        // The connection is closed with the last subscription.
        try await eventually("the connection to be closed") {
            try await server.cli("CLIENT", "LIST", "TYPE", "pubsub").isEmpty
        }
        await subscriber.close()
    }

    @Test("a full buffer drops its messages, and makes its consumer catch up") func bounds() async {
        let buffer = SubscriptionBuffer()
        for number in 0..<SubscriptionBuffer.maxElements + 10 {
            buffer.put(.message(channel: "c", payload: Array("\(number)".utf8)))
        }
        #expect(buffer.count == 11)
        guard case .subscribed? = await buffer.next() else { return #expect(Bool(false)) }
        guard case .message(_, let payload)? = await buffer.next() else { return #expect(Bool(false)) }
        #expect(payload == Array("\(SubscriptionBuffer.maxElements)".utf8))
        let large = SubscriptionBuffer()
        for _ in 0..<40 { large.put(.message(channel: "c", payload: [UInt8](repeating: 0, count: 1 << 20))) }
        #expect(large.count < 20)
        #expect(await buffer.next(until: .now + .milliseconds(1)) != nil)
        let empty = SubscriptionBuffer()
        #expect(await empty.next(until: .now + .milliseconds(1)) == nil)
    }
}
