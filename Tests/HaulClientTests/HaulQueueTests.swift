import HaulClient
import HaulTestSupport
import Testing

@Suite struct HaulQueueTests {
    @Test("a service pushes, steers and awaits; mistakes are told before anything is sent") func pushing() async throws
    {
        let server = try await RedisServer()
        let queue = try HaulQueue(redis: server.url)
        let id = try await queue.push(#"{"url":"http://h/a","path":"a"}"#)
        #expect(id.utf8.count == 16)
        #expect(try await server.cli("LLEN", "haul:{default}:jobs") == "1")
        await #expect { try await queue.push(#"{"url":"ftp://h/a"}"#) } throws: { "\($0)".hasPrefix("url: ") }
        try await queue.pause(id)
        #expect(try await server.cli("HGET", "haul:{default}:want", id).hasPrefix("paused "))
        #expect(try await queue.state(of: id) == nil)
        #expect(throws: HaulQueue.Failure.self) { try HaulQueue(redis: "http://h") }
        #expect(throws: HaulQueue.Failure.self) { try HaulQueue(redis: "redis://h", queue: "{x}") }
    }
}
