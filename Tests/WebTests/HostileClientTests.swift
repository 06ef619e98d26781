import HaulContract
import HaulHTTPServer
import HaulTestSupport
import Testing

@testable import HaulWeb

/// What clients without credentials can make the server hold and do, in counts: bytes, and requests that come first.
@Suite(.serialized) struct HostileClientTests {
    /// What one hostile client sends on each of its connections, again and again as long as the server takes it.
    struct Pattern: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let begin: [UInt8]
        let more: [UInt8]
        /// Whether the server certainly holds some of it, because it waits for the rest of a head.
        let isHeld: Bool

        init(_ name: String, _ begin: String, then more: String = "", isHeld: Bool = false) {
            testDescription = name
            (self.begin, self.more, self.isHeld) = (Array(begin.utf8), Array(more.utf8), isHeld)
        }
    }

    private static let kilobyte = String(repeating: "a", count: 1024)

    static let patterns = [
        Pattern("connections without a byte", ""),
        Pattern("half a request line", "GE", isHeld: true),
        Pattern("heads that come byte by byte", "GET / HTTP/1.1\r\nA: ", then: "a", isHeld: true),
        Pattern("a head that never ends", "GET / HTTP/1.1\r\n", then: "A: \(kilobyte)\r\n"),
        Pattern("a request line that never ends", "GET /", then: kilobyte),
        Pattern("empty lines", "", then: String(repeating: "\r\n", count: 512)),
        Pattern("line feeds", "", then: String(repeating: "\n", count: 512)),
        Pattern("NULs", "", then: String(repeating: "\0", count: 512)),
        Pattern(
            "a body without credentials",
            "POST /api/queues/default/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1048576\r\n\r\n",
            then: kilobyte),
        Pattern(
            "a body for a path that does not exist",
            "POST /nothing HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1048576\r\n\r\n", then: kilobyte),
        Pattern(
            "a body for another host", "POST / HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 1048576\r\n\r\n",
            then: kilobyte),
        Pattern(
            "a body of which the client asks whether it may come",
            "POST /api/queues/default/jobs HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n"
        ),
        Pattern(
            "requests without an end, whose responses are not read", "",
            then: String(repeating: "GET /api/session HTTP/1.1\r\nHost: localhost\r\n\r\n", count: 20)),
        Pattern(
            "requests with bodies without an end", "",
            then: String(
                repeating: "POST /api/session HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc", count: 20)),
        Pattern("TLS", "\u{16}\u{3}\u{1}\u{2}\0\u{1}", then: kilobyte),
    ]

    @Test(
        "no pattern makes the server hold more than a head for each connection, and others are served",
        arguments: patterns)
    func bounded(pattern: Pattern) async throws {
        let fixture = try await WebFixture {
            $0.accounts = try? Accounts("alice operator \(Accounts.hash(token: "secret-token"))")
        }
        var limits = ServerLimits()
        limits.connections = 100
        // Requests of strangers, and the number of them when the last one of a client without malice came.
        let strange = Shared(0)
        let server = HTTPServer(limits: limits) { request in
            if request["x-me"] == nil { strange.change { $0 += 1 } }
            return await fixture.web.decide(request)
        }
        let address = try await server.listen(on: ListenAddress("127.0.0.1:0")!)
        let (turns, held, most) = (Shared(0), Shared(0), limits.head + 4 + 8192)
        // More connections than the server accepts. None is ever read from.
        let attack = Task {
            var clients: [RawClient] = []
            for _ in 0..<130 {
                let client = try RawClient(address)
                clients.append(client)
                client.offer(pattern.begin)
            }
            while !Task.isCancelled {
                for index in clients.indices {
                    // When the ports that may be connected are used up, it tries again.
                    if clients[index].isClosed, let client = try? RawClient(address) {
                        clients[index] = client
                        client.offer(pattern.begin)
                    }
                    for _ in 0..<8 { clients[index].offer(pattern.more) }
                }
                let load = await server.load
                held.change { $0 = max($0, load.buffered / max(1, load.connections)) }
                #expect(load.bodies == 0)
                turns.change { $0 += 1 }
                try await Task.sleep(for: .milliseconds(1))
            }
        }
        for _ in 0..<5 {
            // A new client of another network, which the server must let in beside all of them.
            let client = try RawClient(address, from: "127.0.7.1")
            let before = strange.value
            await client.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Me: 1\r\n\r\n")
            let response = await client.read(until: "ok\n")
            #expect(response.hasPrefix("HTTP/1.1 200 "), "\(response)")
            let first = strange.value - before
            // Some turns of each connection, and not all that they have sent.
            #expect(first < 130 * 20, "\(first) requests of others came first")
        }
        try await eventually("the load to be measured") { turns.value > 0 && (held.value > 0 || !pattern.isHeld) }
        #expect(held.value <= most, "\(held.value) bytes for each connection")
        attack.cancel()
        _ = await attack.result
        await server.stop()
    }

    @Test("a client connects and is served, however busy another network keeps all connections")
    func otherNetwork() async throws {
        var limits = ServerLimits()
        limits.connections = 8
        let handlers = Shared(0)
        let server = HTTPServer(limits: limits) { request in
            if request.path == "/busy" {
                handlers.change { $0 += 1 }
                try? await Task.sleep(for: .seconds(600))
                handlers.change { $0 -= 1 }
            }
            return .respond(ServerResponse(200, "text/plain", "ok\n"))
        }
        let address = try await server.listen(on: ListenAddress("127.0.0.1:0")!)
        var busy: [RawClient] = []
        func keepBusy() async throws {
            let client = try RawClient(address)
            await client.send("GET /busy HTTP/1.1\r\nHost: h\r\n\r\n")
            busy.append(client)
        }
        for _ in 0..<8 { try await keepBusy() }
        try await eventually("eight requests to be worked on") { handlers.value == 8 }
        // One more of the same network gets a 503, and one of another network takes a busy connection.
        let ninth = try RawClient(address)
        #expect(await ninth.read().hasPrefix("HTTP/1.1 503 "))
        let client = try RawClient(address, from: "127.0.7.1")
        try await eventually("the client to be accepted") { handlers.value == 7 }
        // While it has not sent anything, further connections of the busy network do not take its place.
        for _ in 0..<16 { try await keepBusy() }
        await client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        let response = await client.read(until: "ok\n")
        #expect(response.hasPrefix("HTTP/1.1 200 "), "\(response)")
        await server.stop()
    }

    @Test("all bodies together are bounded, and the budget is given back")
    func bodyBudget() async throws {
        var limits = ServerLimits()
        (limits.body, limits.bodies) = (1000, 2500)
        let server = HTTPServer(limits: limits) { request in
            request.path == "/no"
                ? .respond(ServerResponse(401)) : .readBody { ServerResponse(200, "text/plain", "\($0.count)") }
        }
        let address = try await server.listen(on: ListenAddress("127.0.0.1:0")!)
        func post(_ path: String, _ text: String) async throws -> RawClient {
            let client = try RawClient(address)
            await client.send("POST \(path) HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\n" + text)
            return client
        }
        var clients = [try await post("/", "a"), try await post("/", "a")]
        try await eventually("two bodies to be received") { await server.load.bodies == 2000 }
        let third = try await post("/", "a")
        let refusal = await third.read()
        #expect(refusal.hasPrefix("HTTP/1.1 503 ") && refusal.contains("too many bodies"), "\(refusal)")
        #expect(await server.load.bodies == 2000)
        // What is refused from its head takes nothing.
        let refused = try await post("/no", "a")
        #expect(await refused.read(until: "\r\n\r\n").hasPrefix("HTTP/1.1 401 "))
        await clients[0].send([UInt8](repeating: 97, count: 999))
        #expect(await clients[0].read(until: "1000").hasPrefix("HTTP/1.1 200 "))
        clients = []
        try await eventually("the budget to be given back") { await server.load.bodies == 0 }
        await server.stop()
    }

    @Test("clients that have not signed in share a small part of the budget, which leaves the rest to the others")
    func strangersBodies() async throws {
        var limits = ServerLimits()
        (limits.body, limits.bodies, limits.strangersBodies) = (1000, 10_000, 2000)
        let server = HTTPServer(limits: limits) { request in
            .readBody(stranger: request.path == "/known" ? nil : request.client) {
                ServerResponse(200, "text/plain", "\($0.count)")
            }
        }
        let address = try await server.listen(on: ListenAddress("127.0.0.1:0")!)
        func post(_ path: String, _ text: String, from source: String) async throws -> RawClient {
            let client = try RawClient(address, from: source)
            await client.send("POST \(path) HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\n" + text)
            return client
        }
        var strangers = [try await post("/", "a", from: "127.0.1.1")]
        try await eventually("a body to be received") { await server.load.bodies == 1000 }
        // A second one of its network, and then the third network.
        #expect(try await post("/", "a", from: "127.0.1.2").read().hasPrefix("HTTP/1.1 503 "))
        strangers.append(try await post("/", "a", from: "127.0.2.1"))
        try await eventually("two bodies to be received") { await server.load.bodies == 2000 }
        #expect(try await post("/", "a", from: "127.0.3.1").read().hasPrefix("HTTP/1.1 503 "))
        let body = String(repeating: "a", count: 1000)
        #expect(try await post("/known", body, from: "127.0.1.1").read(until: "1000").hasPrefix("HTTP/1.1 200 "))
        strangers = []
        try await eventually("the budget to be given back") { await server.load.bodies == 0 }
        #expect(try await post("/", body, from: "127.0.3.1").read(until: "1000").hasPrefix("HTTP/1.1 200 "))
        await server.stop()
    }

    @Test("long responses that wait for readers are bounded, and short ones and other networks are answered")
    func unreadResponses() async throws {
        var limits = ServerLimits()
        limits.responses = 64 << 20
        let (bytes, changes, lists) = ([UInt8](repeating: 97, count: 9 << 20), Shared(0), Shared(0))
        let server = HTTPServer(limits: limits) { request in
            let text = request.path == "/short" ? "short" : String(decoding: bytes, as: UTF8.self)
            var response = ServerResponse(200, "text/plain", text)
            if request.path == "/forwarded" { response.recipient = ClientAddress("10.1.1.1")?.network }
            if request.path == "/list" {
                response.isRepeatable = true
                return .readBody { [response] _ in
                    lists.change { $0 += 1 }
                    while lists.value < 3 { await Task.yield() }
                    return response
                }
            }
            guard request.path == "/change" else { return .respond(response) }
            return .readBody { [response] _ in
                changes.change { $0 += 1 }
                return response
            }
        }
        let address = try await server.listen(on: ListenAddress("127.0.0.1:0")!)
        func get(_ path: String, from source: String) async throws -> RawClient {
            let client = try RawClient(address, from: source)
            await client.send("GET \(path) HTTP/1.1\r\nHost: h\r\n\r\n")
            return client
        }
        // The kernel takes some megabytes of the response, and the server holds it.
        let first = try await get("/", from: "127.0.1.1")
        try await eventually("the first response to wait") { await server.load.buffered > 9 << 20 }
        #expect(try await get("/", from: "127.0.1.2").read().hasPrefix("HTTP/1.1 503 "))
        #expect(try await get("/short", from: "127.0.1.2").read(until: "short").hasPrefix("HTTP/1.1 200 "))
        // What it asked for is done by now, so it gets its response.
        let post = try RawClient(address, from: "127.0.1.2")
        await post.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n")
        #expect(await post.read(until: "aaa").hasPrefix("HTTP/1.1 200 "))
        // What comes with a body is refused before it changes anything, even if the body is empty.
        func change(_ body: String, from source: String) async throws -> RawClient {
            let client = try RawClient(address, from: source)
            await client.send("POST /change HTTP/1.1\r\nHost: h\r\nContent-Length: \(body.count)\r\n\r\n\(body)")
            return client
        }
        for body in ["", "body"] {
            #expect(try await change(body, from: "127.0.1.2").read().hasPrefix("HTTP/1.1 503 "))
        }
        #expect(changes.value == 0)
        #expect(try await change("body", from: "127.0.4.1").read(until: "aaa").hasPrefix("HTTP/1.1 200 "))
        // Requests with bodies that come together pass the first check together. What only reads is refused later.
        var listing: [RawClient] = []
        for _ in 0..<3 {
            listing.append(try RawClient(address, from: "127.0.5.1"))
            await listing.last?.send("POST /list HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\na")
        }
        try await eventually("all lists to be asked for") { lists.value == 3 }
        var refused = 0
        for client in listing where await client.read(until: "\r\n").hasPrefix("HTTP/1.1 503 ") { refused += 1 }
        #expect(refused == 2)
        listing = []
        // A proxy has forwarded it for a client of another network.
        #expect(try await get("/forwarded", from: "127.0.1.3").read(until: "aaa").hasPrefix("HTTP/1.1 200 "))
        #expect(try await get("/", from: "127.0.2.1").read(until: "aaa").hasPrefix("HTTP/1.1 200 "))
        #expect(await first.read(until: "aaa").hasPrefix("HTTP/1.1 200 "))
        await server.stop()
    }

    @Test("a piece of a stream that waits for its reader counts among the responses") func unreadStreams() async throws
    {
        var limits = ServerLimits()
        limits.responses = 64 << 20
        let server = HTTPServer(limits: limits) { _ in
            .respond(
                ServerResponse(
                    200,
                    body: .stream { writer in
                        try await writer.send([UInt8](repeating: 97, count: 9 << 20))
                        try await writer.send("end")
                    }))
        }
        let address = try await server.listen(on: ListenAddress("127.0.0.1:0")!)
        func get(from source: String) async throws -> RawClient {
            let client = try RawClient(address, from: source)
            await client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
            return client
        }
        let first = try await get(from: "127.0.1.1")
        try await eventually("the first piece to wait") { await server.load.buffered >= 9 << 20 }
        // The second one of this network ends before its piece.
        let second = await (try get(from: "127.0.1.2")).read()
        #expect(second.hasPrefix("HTTP/1.1 200 ") && !second.contains("aaa"))
        #expect(try await get(from: "127.0.2.1").read().hasSuffix("end"))
        #expect(await first.read().hasSuffix("end"))
        await server.stop()
    }

    @Test("what a client sends after a change of the protocol waits in the kernel until it is read")
    func upgraded() async throws {
        let (mayRead, received) = (Shared(false), Shared(0))
        let server = HTTPServer { _ in
            .respond(
                ServerResponse(
                    101,
                    body: .upgrade { writer, incoming in
                        while !mayRead.value { try await Task.sleep(for: .milliseconds(10)) }
                        while case .bytes(let bytes) = await incoming.next(until: .now + .seconds(15)) {
                            received.change { $0 += bytes.count }
                            if bytes.last == 10 { break }
                        }
                        try await writer.send("whole")
                    }))
        }
        let address = try await server.listen(on: ListenAddress("127.0.0.1:0")!)
        let client = try RawClient(address)
        await client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        #expect(await client.read(until: "\r\n\r\n").hasPrefix("HTTP/1.1 101 "))
        // As much as the kernel takes, up to 16 MB, which is far more than a server would keep.
        let piece = [UInt8](repeating: 97, count: 16 << 10)
        var sent = 0
        for _ in 0..<1000 { sent += max(0, client.offer(piece)) }
        mayRead.value = true
        sent += await client.send([10])
        #expect(await client.read(until: "whole").contains("whole"))
        #expect(received.value == sent)
        await server.stop()
    }

    @Test("a client sends a body only after the server has said so")
    func permission() async throws {
        let server = HTTPServer { request in
            request.path == "/no"
                ? .respond(ServerResponse(401)) : .readBody { ServerResponse(200, "text/plain", "\($0.count)") }
        }
        let address = try await server.listen(on: ListenAddress("127.0.0.1:0")!)
        func head(_ path: String) -> String {
            "POST \(path) HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n"
        }
        let client = try RawClient(address)
        await client.send(head("/"))
        #expect(await client.read(until: "\r\n\r\n") == "HTTP/1.1 100 Continue\r\n\r\n")
        await client.send("ab")
        #expect(await client.read(until: "2").hasPrefix("HTTP/1.1 200 "))
        await client.send(head("/no"))
        let refusal = await client.read()
        #expect(refusal.hasPrefix("HTTP/1.1 401 ") && refusal.contains("Connection: close"), "\(refusal)")
        let hasty = try RawClient(address)
        await hasty.send(head("/") + "ab")
        #expect(await hasty.read(until: "2").hasPrefix("HTTP/1.1 200 "))
        await server.stop()
    }

    @Test("no byte prolongs the time for a head", arguments: ["a", "\r\n"])
    func headDeadline(bytes: String) async throws {
        var limits = ServerLimits()
        limits.headTime = .milliseconds(600)
        let server = HTTPServer(limits: limits) { _ in .respond(ServerResponse(200)) }
        let address = try await server.listen(on: ListenAddress("127.0.0.1:0")!)
        let client = try RawClient(address)
        let begun = ContinuousClock.now
        var sent = 0
        while !client.isClosed, begun + .seconds(15) > .now {
            // Two empty lines are allowed: the third one would be refused.
            if bytes == "a" || sent < 2 { client.offer(Array(bytes.utf8)) }
            sent += 1
            try await Task.sleep(for: .milliseconds(250))
        }
        #expect(client.isClosed && .now - begun < .seconds(15))
        await server.stop()
    }

    @Test("a full server closes the connections of the network that has most of them")
    func replacement() async throws {
        var limits = ServerLimits()
        limits.connections = 6
        let server = HTTPServer(limits: limits) { _ in .respond(ServerResponse(200, "text/plain", "ok")) }
        let address = try await server.listen(on: ListenAddress("0.0.0.0:0")!)
        let friend = try RawClient(address, from: "127.0.7.1")
        await friend.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        _ = await friend.read(until: "ok")
        var others: [RawClient] = []
        for _ in 0..<20 { others.append(try RawClient(address)) }
        try await eventually("the others to be closed") { others.count(where: \.isClosed) >= 15 }
        await friend.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        #expect(await friend.read(until: "ok").hasPrefix("HTTP/1.1 200 "))
        await server.stop()
    }
}
