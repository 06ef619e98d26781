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
    /// The longest message of a client that has not signed in. Many may wait at once for their token to be checked.
    private static let maxFirstMessage = 64 << 10

    func decide(_ request: ServerRequest, _ api: API) throws(APIError) -> HTTPServer.Decision {
        switch request.method {
        case "OPTIONS":
            let fields = [
                ("Access-Control-Allow-Methods", "POST, GET, OPTIONS"),
                ("Access-Control-Allow-Headers", "Content-Type, Authorization"), ("Access-Control-Max-Age", "86400"),
            ]
            return .respond(ServerResponse(204, fields: Self.crossOrigin + fields))
        case "POST":
            return .readBody(stranger: isKnown(request) ? nil : request.client) { body in
                var session = Session(request: request)
                let text = await respond(to: body, in: &session) ?? ""
                var response = ServerResponse(
                    200, fields: Self.crossOrigin + [("Content-Type", "application/json-rpc")],
                    body: .bytes(Array(text.utf8)))
                response.isRepeatable = !session.hasChanged
                return response
            }
        case "GET" where request["upgrade"]?.lowercased() == "websocket":
            return .respond(try socket(request, api))
        default:
            var error = APIError(405, .method, "aria2's JSON-RPC is called with POST or through a WebSocket")
            error.allowed = ["POST", "OPTIONS", "GET"]
            throw error
        }
    }

    /// Whether the client needs no token.
    private func isKnown(_ request: ServerRequest) -> Bool {
        admission.accounts == nil && Self.isOfProgram(request)
    }

    private func socket(_ request: ServerRequest, _ api: API) throws(APIError) -> ServerResponse {
        guard let key = request["sec-websocket-key"], request["sec-websocket-version"] == "13",
            let digest = Hexadecimal.bytes(SHA1.hex(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
        else { throw APIError(400, .badRequest, "the request does not begin a WebSocket of version 13 (RFC 6455)") }
        let number = api.counter.next()
        // The client signs in by its first call. Until then it takes no place of those who have signed in.
        let stranger = Caller(visitor: Visitor(name: nil, role: .viewer), client: request.client)
        guard let hold = strangers.hold(number, for: stranger) else {
            throw APIError(429, .tooMany, "too many clients have not signed in yet: try again in some seconds")
        }
        return ServerResponse(
            101, fields: [("Upgrade", "websocket"), ("Sec-WebSocket-Accept", Base64.encode(digest))],
            body: .upgrade { writer, incoming in
                var feed = NotificationFeed(hold, number, EventHub.Topic(queue: queue.name.text, id: nil), api)
                do {
                    try await converse(request, incoming, writer, &feed, signInTime: api.configuration.limits.headTime)
                } catch let violation as WebSocketReader.Violation {
                    try? await Self.close(writer, violation.code)
                } catch {}
                await feed.end()
            })
    }

    private static func close(_ writer: ResponseWriter, _ code: UInt16) async throws {
        try await writer.send(WebSocketReader.frame(0x8, [UInt8(code >> 8), UInt8(code & 0xFF)]))
    }

    /// Answers calls, and sends notifications once a call was allowed, because they name jobs.
    ///
    /// - Parameter signInTime: Until the first call that is allowed.
    private func converse(
        _ request: ServerRequest, _ incoming: IncomingBytes, _ writer: ResponseWriter, _ feed: inout NotificationFeed,
        signInTime: Duration
    ) async throws {
        var session = Session(request: request)
        if isKnown(request) { session.caller = try await admission.caller(nil, from: request.client, audit) }
        var reader = WebSocketReader(maxLength: session.caller == nil ? Self.maxFirstMessage : Self.maxMessage)
        let begun = ContinuousClock.now
        var spoken = begun
        while true {
            switch await incoming.next(until: .now + .milliseconds(250)) {
            case .end: return
            case .none: break
            case .bytes(let bytes):
                reader.add(bytes)
                while let message = try reader.next() {
                    switch message {
                    case .close: return try await Self.close(writer, 1000)
                    case .ping(let payload): try await writer.send(WebSocketReader.frame(0xA, payload))
                    case .text(let text):
                        let response = await respond(to: text, in: &session)
                        if session.caller != nil { reader.maxLength = Self.maxMessage }
                        guard let response else { continue }
                        try await writer.send(WebSocketReader.frame(0x1, Array(response.utf8)))
                    }
                }
            }
            if let caller = session.caller {
                // 1013: try again later.
                guard try await feed.begin(for: caller) else { return try await Self.close(writer, 1013) }
                for event in feed.take() {
                    guard let text = Self.notification(event) else { continue }
                    try await writer.send(WebSocketReader.frame(0x1, Array(text.utf8)))
                    spoken = .now
                }
            } else if begun + signInTime < .now {
                // 1008: a policy is violated.
                return try await Self.close(writer, 1008)
            }
            if spoken + .seconds(30) < .now {
                try await writer.send(WebSocketReader.frame(0x9, []))
                spoken = .now
            }
        }
    }

    static func notification(_ event: String) -> String? {
        guard let json = try? JSON(event), let name = json["event"]?.string, let method = notifications[name],
            let id = json["id"]?.string
        else { return nil }
        return #"{"jsonrpc":"2.0","method":"\#(method)","params":[{"gid":\#(JSON.quoted(id))}]}"#
    }
}

/// The events of which a WebSocket notifies its client, and its place among the streams: first one of those for
/// strangers, and then one of the caller's.
private struct NotificationFeed {
    private var hold: Quota<UInt64>.Hold?
    private var buffer: ListenerBuffer?
    private let number: UInt64
    private let topic: EventHub.Topic
    private let api: API

    init(_ hold: Quota<UInt64>.Hold, _ number: UInt64, _ topic: EventHub.Topic, _ api: API) {
        (self.hold, self.number, self.topic, self.api) = (hold, number, topic, api)
    }

    /// Listens, unless it does so already. false if the caller has too many streams.
    mutating func begin(for caller: Caller) async throws -> Bool {
        guard buffer == nil else { return true }
        guard let own = api.streams.hold(number, for: caller) else { return false }
        hold = own
        do throws(APIError) { buffer = try await api.hub.listen(to: topic, for: caller) } catch {
            guard error.code == .tooMany || error.code == .busy else { throw error }
            return false
        }
        return true
    }

    func take() -> [String] { buffer?.take().events ?? [] }

    mutating func end() async {
        if let buffer { await api.hub.leave(topic, buffer) }
        (buffer, hold) = (nil, nil)
    }
}
