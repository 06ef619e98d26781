import HaulBus
import HaulContract
import HaulHTTPServer
import HaulRedis
import HaulTestSupport
import Testing

@testable import HaulWeb

/// The WebSocket of aria2's JSON-RPC: who is notified, and what a client gets that does not sign in.
@Suite struct Aria2SocketTests {
    private struct Bench {
        let fixture: WebFixture
        let server: HTTPServer
        let address: ListenAddress

        init(_ change: @escaping (inout WebConfiguration) -> Void = { _ in }) async throws {
            let fixture = try await WebFixture {
                $0.aria2 = .default
                change(&$0)
            }
            self.fixture = fixture
            server = HTTPServer { await fixture.web.decide($0) }
            address = try await server.listen(on: ListenAddress("127.0.0.1:0")!)
        }

        func open(_ fields: String = "", from source: String = "127.0.0.1") async throws -> RawClient {
            let client = try RawClient(address, from: source)
            await client.send(
                "GET /jsonrpc HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                    + "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\(fields)\r\n")
            return client
        }

        /// Waits until the server has subscribed to the queue's events.
        func waitForListeners() async throws {
            try await eventually("a subscription") {
                let redis = fixture.queue.redis
                let channels = try await redis.send(Command("PUBSUB", "CHANNELS")).array?.count ?? 0
                return try await redis.send(Command("PUBSUB", "NUMPAT")).int ?? 0 > 0 || channels > 0
            }
        }

        /// Makes a job that begins and ends, whose id is `id`.
        func complete(_ id: String) async throws {
            let job = #"{"url":"http://h/\#(id)","id":"\#(id)"}"#
            try await fixture.server.cli("LPUSH", "haul:{default}:jobs", job)
            try await fixture.settle(try #require(try await fixture.claim()), WebFixture.done)
        }
    }

    /// A text as the frame of a client, with a mask of zeros.
    private static func frame(_ text: String) -> [UInt8] {
        let payload = Array(text.utf8)
        var bytes = WebSocketReader.frame(0x1, payload)
        bytes[1] |= 0x80
        bytes.insert(contentsOf: [0, 0, 0, 0], at: bytes.count - payload.count)
        return bytes
    }

    private static let accounts = try? Accounts("v viewer \(Accounts.hash(token: "look"))")
    private static func call(_ token: String, id: String = "1") -> String {
        #"{"jsonrpc":"2.0","id":\#(id),"method":"aria2.getVersion","params":["token:\#(token)"]}"#
    }

    @Test("only a client that has signed in is notified, whatever the ids of its calls are")
    func notified() async throws {
        let bench = try await Bench { $0.accounts = Self.accounts }
        let (stranger, guest) = (try await bench.open(), try await bench.open())
        await stranger.send(Self.frame(Self.call("wrong", id: #"{"result":1}"#)))
        #expect(await stranger.read(until: "Unauthorized").contains("Unauthorized"))
        await stranger.send(Self.frame(#"{"id":2,"method":"system.listMethods"}"#))
        #expect(await stranger.read(until: "]}").contains("aria2.addUri"))
        // The token of a call within another one counts, too.
        let inner = #"{"methodName":"aria2.getVersion","params":["token:look"]}"#
        await guest.send(Self.frame(#"{"id":1,"method":"system.multicall","params":[[\#(inner)]]}"#))
        #expect(await guest.read(until: "enabledFeatures").contains("101 "))
        try await bench.waitForListeners()
        try await bench.complete("film")
        #expect(await guest.read(until: "onDownloadComplete").contains("film"))
        await stranger.send(Self.frame(#"{"id":"last","method":"no"}"#))
        let heard = await stranger.read(until: "last")
        #expect(heard.contains("last") && !heard.contains("film"), "\(heard)")
        await bench.server.stop()
    }

    @Test("without --auth a program is notified, and no page of a browser")
    func origins() async throws {
        let bench = try await Bench()
        let (program, page) = (try await bench.open(), try await bench.open("Origin: http://evil.example\r\n"))
        for client in [program, page] { await client.send(Self.frame(Self.call("x", id: #"{"result":1}"#))) }
        #expect(await program.read(until: "enabledFeatures").contains("enabledFeatures"))
        #expect(await page.read(until: "Unauthorized").contains("Unauthorized"))
        try await bench.waitForListeners()
        try await bench.complete("film")
        #expect(await program.read(until: "onDownloadComplete").contains("film"))
        await page.send(Self.frame(#"{"id":"last","method":"no"}"#))
        #expect(!(await page.read(until: "last")).contains("film"))
        await bench.server.stop()
    }

    @Test("the messages of a client that has not signed in are short")
    func firstMessages() async throws {
        let bench = try await Bench { $0.accounts = Self.accounts }
        func message(of count: Int) -> [UInt8] {
            let call = Self.call("look", id: #""\#(String(repeating: "9", count: 900))""#)
            return Self.frame(call + String(repeating: " ", count: count))
        }
        let (guest, stranger) = (try await bench.open(), try await bench.open())
        for _ in 0..<2 {
            await guest.send(Self.frame(Self.call("look", id: "7")))
            #expect(await guest.read(until: "enabledFeatures").contains("enabledFeatures"))
            await guest.send(message(of: 900_000))
            #expect(await guest.read(until: "999").contains("999"))
        }
        await stranger.send(message(of: 70_000))
        // A frame of two bytes: 1009, the message is too big.
        #expect(await stranger.read().contains("\u{2}\u{3}"))
        await bench.server.stop()
    }

    @Test("a client that does not sign in is closed soon, and takes no place of those who have")
    func strangers() async throws {
        let bench = try await Bench {
            $0.accounts = Self.accounts
            $0.limits.headTime = .milliseconds(500)
            $0.limits.streams = 8
        }
        var clients: [RawClient] = []
        for _ in 0..<8 { clients.append(try await bench.open()) }
        for client in clients { #expect(await client.read(until: "\r\n\r\n").contains("101 ")) }
        // One more of their network waits, while the viewer's own stream begins.
        #expect(await (try await bench.open(from: "127.0.0.9")).read(until: "too_many").contains("429"))
        let viewer = try RawClient(bench.address)
        await viewer.send(
            "GET /api/queues/default/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer look\r\n\r\n")
        #expect(await viewer.read(until: "subscribed").contains("200 "))
        // A frame of two bytes: 1008, a policy is violated.
        for client in clients { #expect(await client.read().contains("\u{2}\u{3}")) }
        try await eventually("a place to be free") {
            await (try await bench.open()).read(until: "\r\n\r\n").contains("101 ")
        }
        await bench.server.stop()
    }
}
