import HaulBus
import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

@testable import HaulWorker

@Suite("Jobs that wait for their host")
struct HostWaitTests {
    private static let bytes = FileBytes(seed: 61, count: 300_000)

    @Test(
        "a running job that waits for its host says so once, and no longer when it continues", arguments: [true, false])
    func waiting(_ isSeenToGoOn: Bool) async throws {
        let fleet = try await Fleet()
        let (first, second) = (Latch(), Latch())
        defer { second.open() }
        let origin = try OriginServer { request in
            var reply = OriginReply.file(Self.bytes, to: request)
            reply.hold = (100_000, request.path == "/a" ? first : second)
            return reply
        }
        let key = fleet.queue.keys.job("b")
        let reported = Shared(0)
        let subscribed = Shared(false)
        let subscription = fleet.queue.events()
        let listening = Task {
            for await element in subscription {
                switch element {
                case .subscribed: subscribed.value = true
                case .message(_, let payload):
                    guard let event = Event(payload), event.name == "waiting" else { continue }
                    #expect(event.id == "b")
                    #expect(event["why"]?.string == "host")
                    reported.change { $0 += 1 }
                case .interrupted: break
                }
            }
        }
        defer { listening.cancel() }
        try await eventually { subscribed.value }
        try await fleet.withWorker("w", { $0.connectionsPerHost = 1 }) {
            try await fleet.push(#"{"url":"\#(origin.url("/a"))","id":"a"}"#)
            try await eventually { try await fleet.queue.job("a")?.offsets.isEmpty == false }
            try await fleet.push(#"{"url":"\#(origin.url("/b"))","id":"b"}"#)
            try await eventually { try await fleet.queue.job("b")?["waiting"] == "host" }
            #expect(try await fleet.state("b") == .running)
            #expect(try await fleet.queue.job("a")?["waiting"] == nil)
            if !isSeenToGoOn { second.open() }
            first.open()
            if isSeenToGoOn {
                try await eventually { try await fleet.queue.job("b")?["waiting"] == nil }
                second.open()
            }
            try await fleet.wait("b", for: .completed)
            #expect(try await fleet.queue.redis.send(Command("HEXISTS", key, "waiting")).int == 0)
        }
        #expect(reported.value == 1)
        #expect(fleet.root.holds("b", Self.bytes))
    }

    @Test("a mirror that answers 429 makes the fleet pause its own host") func mirror() async throws {
        let fleet = try await Fleet()
        let origin = try OriginServer { request in
            request.path == "/gone"
                ? OriginReply(404) : OriginReply(429, headers: [("Retry-After", "60")])
        }
        let second = origin.url("/busy").replacing("127.0.0.1", with: "localhost")
        try await fleet.withWorker("w") {
            try await fleet.push(#"{"id":"a","urls":["\#(origin.url("/gone"))","\#(second)"]}"#)
            try await fleet.wait("a", for: .scheduled)
            let paused = try await fleet.server.cli("KEYS", fleet.queue.keys.prefix + "backoff:*")
            #expect(paused.hasSuffix("backoff:localhost"))
        }
    }
}
