import HaulBus
import HaulContract
import HaulHTTPServer
import HaulRedis

// How calls and notifications travel: POST, and a WebSocket.

extension Aria2 {
    /// Any page may call, because each call has a token in its body, which no other site's page knows.
    private static let crossOrigin: [(name: String, value: String)] = [
        ("Access-Control-Allow-Origin", "*"), ("Cache-Control", "no-store"),
    ]
    private static let maxMessage = 1 << 20

    func decide(_ request: ServerRequest, _ hub: EventHub, _ streams: Quota<UInt64>, _ number: UInt64) throws(APIError)
        -> HTTPServer.Decision
    {
        switch request.method {
        case "OPTIONS":
            let fields = [
                ("Access-Control-Allow-Methods", "POST, GET, OPTIONS"),
                ("Access-Control-Allow-Headers", "Content-Type, Authorization"), ("Access-Control-Max-Age", "86400"),
            ]
            return .respond(ServerResponse(204, fields: Self.crossOrigin + fields))
        case "POST":
            return .readBody { body in
                let text = await respond(to: body, from: request) ?? ""
                return ServerResponse(
                    200, fields: Self.crossOrigin + [("Content-Type", "application/json-rpc")],
                    body: .bytes(Array(text.utf8)))
            }
        case "GET" where request["upgrade"]?.lowercased() == "websocket":
            return .respond(try socket(request, hub, streams, number))
        default:
            var error = APIError(405, .method, "aria2's JSON-RPC is called with POST or through a WebSocket")
            error.allowed = ["POST", "OPTIONS", "GET"]
            throw error
        }
    }

    private enum Input: Sendable { case bytes([UInt8]), tick }

    private func socket(
        _ request: ServerRequest, _ hub: EventHub, _ streams: Quota<UInt64>, _ number: UInt64
    ) throws(APIError) -> ServerResponse {
        guard let key = request["sec-websocket-key"], request["sec-websocket-version"] == "13",
            let digest = Hexadecimal.bytes(SHA1.hex(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
        else { throw APIError(400, .badRequest, "the request does not begin a WebSocket of version 13 (RFC 6455)") }
        // The client has not signed in yet: its first call does.
        let unknownCaller = Caller(visitor: Visitor(name: nil, role: .viewer), client: request.client)
        guard let hold = streams.hold(number, for: unknownCaller) else {
            throw APIError(429, .tooMany, "too many streams are open: close another page, or try again in some seconds")
        }
        let topic = EventHub.Topic(queue: queue.name.text, id: nil)
        return ServerResponse(
            101, fields: [("Upgrade", "websocket"), ("Sec-WebSocket-Accept", Base64.encode(digest))],
            body: .upgrade { writer, incoming in
                defer { withExtendedLifetime(hold) {} }
                let (inputs, feed) = AsyncStream<Input>.makeStream(bufferingPolicy: .bufferingOldest(256))
                let sources = [
                    Task {
                        for await bytes in incoming {
                            // What is not taken cannot be left out of a protocol of frames.
                            if case .dropped = feed.yield(.bytes(bytes)) { break }
                        }
                        feed.finish()
                    },
                    Task {
                        while (try? await Task.sleep(for: .milliseconds(250))) != nil { feed.yield(.tick) }
                    },
                ]
                defer { for source in sources { source.cancel() } }
                var buffer: ListenerBuffer?
                do {
                    try await converse(inputs, request, writer) {
                        if buffer == nil { buffer = try await hub.listen(to: topic, for: unknownCaller) }
                        return buffer?.take().events ?? []
                    }
                } catch let violation as WebSocketReader.Violation {
                    let code = [UInt8(violation.code >> 8), UInt8(violation.code & 0xFF)]
                    try? await writer.send(WebSocketReader.frame(0x8, code))
                } catch {}
                if let buffer { await hub.leave(topic, buffer) }
            })
    }

    /// Answers calls, and sends notifications once a call was allowed, because they name jobs.
    private func converse(
        _ inputs: AsyncStream<Input>, _ request: ServerRequest, _ writer: ResponseWriter,
        _ events: () async throws -> [String]
    ) async throws {
        var reader = WebSocketReader(maxLength: Self.maxMessage)
        var (isAllowed, spoken) = (admission.accounts == nil && request["origin"] == nil, ContinuousClock.now)
        for await input in inputs {
            switch input {
            case .tick:
                if isAllowed {
                    for event in try await events() {
                        guard let text = Self.notification(event) else { continue }
                        try await writer.send(WebSocketReader.frame(0x1, Array(text.utf8)))
                        spoken = .now
                    }
                }
                guard spoken + .seconds(30) < .now else { continue }
                try await writer.send(WebSocketReader.frame(0x9, []))
                spoken = .now
            case .bytes(let bytes):
                reader.add(bytes)
                while let message = try reader.next() {
                    switch message {
                    case .close:
                        try await writer.send(WebSocketReader.frame(0x8, [0x03, 0xE8]))
                        return
                    case .ping(let payload): try await writer.send(WebSocketReader.frame(0xA, payload))
                    case .text(let text):
                        guard let response = await respond(to: text, from: request) else { continue }
                        if response.contains("\"result\":") { isAllowed = isAllowed || Self.hasToken(text) }
                        try await writer.send(WebSocketReader.frame(0x1, Array(response.utf8)))
                    }
                }
            }
        }
    }

    /// Whether a call that was answered had a token. Methods of `system` need none.
    private static func hasToken(_ text: [UInt8]) -> Bool {
        guard let call = try? JSON(text), call["method"]?.string?.hasPrefix("aria2.") == true else { return false }
        return call["params"]?.array?.first?.string?.hasPrefix("token:") == true
    }

    static func notification(_ event: String) -> String? {
        guard let json = try? JSON(event), let name = json["event"]?.string, let method = notifications[name],
            let id = json["id"]?.string
        else { return nil }
        return #"{"jsonrpc":"2.0","method":"\#(method)","params":[{"gid":\#(JSON.quoted(id))}]}"#
    }
}
