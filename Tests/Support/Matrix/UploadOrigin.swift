import Synchronization

/// A server that stores uploads as real servers do: the body of a PUT and the file of a form once they are complete,
/// and of tus each byte that arrives. Its data survives a restart.
package final class UploadOrigin: Sendable {
    private struct TusFile {
        let length: Int
        var bytes: [UInt8] = []
        /// Whether a request is sending to the file.
        var isLocked = false
    }

    private struct State {
        var server: OriginServer?
        /// The digests of all complete objects, by path, the newest one last.
        var objects: [String: [[UInt8]]] = [:]
        var files: [String: TusFile] = [:]
        var made = 0
        /// Bytes received, by `place`.
        var received: [String: Int] = [:]
        var bodies: [String: Int] = [:]
    }

    private let state = Mutex(State())
    private let gate = Latch()
    private let held: Int64
    package let port: Int

    /// - Parameter held: How many bytes of the first body of each path are read before `release`.
    package init(held: Int64) throws {
        self.held = held
        let listener = try LoopbackListener()
        port = listener.port
        // No connection has been accepted on the listener, so its port is free at once.
        listener.start(name: "port") { _ in }
        listener.stop()
    }

    /// Starts to serve, even after `stop`. Throws while the port is not free yet.
    package func start() throws {
        let server = try OriginServer(port: port, intake: { [self] in intake($0) }) { [self] in
            answer($0)
        }
        state.withLock { $0.server = server }
    }

    /// Ends as a killed process does. The bytes received by tus stay.
    package func stop() { state.withLock { $0.server.take() }?.stop() }

    package func cutConnections() { state.withLock { $0.server }?.cutConnections(byReset: true) }
    package func release() { gate.open() }

    package func url(_ path: String) -> String { "http://127.0.0.1:\(port)\(path)" }

    /// The SHA-256 digests of all objects that were ever complete.
    package func objects(_ path: String) -> [[UInt8]] { state.withLock { $0.objects[path] ?? [] } }
    package func received(_ path: String) -> Int { state.withLock { $0.received[path] ?? 0 } }
    /// The number of requests with a body.
    package func bodies(_ path: String) -> Int { state.withLock { $0.bodies[path] ?? 0 } }
    /// The number of tus uploads that are neither complete nor removed.
    package var unfinished: Int { state.withLock { $0.files.values.count { $0.bytes.count < $0.length } } }

    // MARK: Requests

    private static let tus = "/tus"

    /// The path under which a request is counted. All tus uploads count as one path.
    private static func place(_ request: OriginRequest) -> String {
        request.path.hasPrefix(tus) ? tus : request.path
    }

    private func intake(_ request: OriginRequest) -> OriginIntake {
        var intake = OriginIntake()
        let place = Self.place(request)
        guard ["PUT", "PATCH"].contains(request.method) || request.method == "POST" && place != Self.tus else {
            return intake
        }
        if request.method == "PATCH", let refusal = lock(request) {
            intake.refusal = refusal
            return intake
        }
        let number = state.withLock { state in
            state.bodies[place, default: 0] += 1
            return state.bodies[place]!
        }
        if number == 1 { intake.hold = (held, gate) }
        intake.onBytes = { [self] bytes in
            state.withLock { state in
                state.received[place, default: 0] += bytes.count
                guard request.method == "PATCH" else { return }
                state.files[request.path]?.bytes += bytes
                if bytes.isEmpty { state.files[request.path]?.isLocked = false }
            }
        }
        return intake
    }

    /// Locks the file for a request. Returns the refusal if it cannot be locked.
    private func lock(_ request: OriginRequest) -> OriginReply? {
        state.withLock { state in
            guard let file = state.files[request.path] else { return OriginReply(404) }
            guard !file.isLocked else { return OriginReply(423) }
            guard request.headers["upload-offset"] == String(file.bytes.count) else { return OriginReply(409) }
            state.files[request.path]?.isLocked = true
            return nil
        }
    }

    private func answer(_ request: OriginRequest) -> OriginReply {
        var reply = request.path.hasPrefix(Self.tus) ? answerTus(request) : keep(request)
        if reply.status == 204 { reply.framing = .none }
        return reply
    }

    private func keep(_ request: OriginRequest) -> OriginReply {
        let body = request.method == "POST" ? Self.fileOfForm(request) : request.body.bytes
        guard let body else { return OriginReply(400) }
        let digest = SHA256.digest(body)
        state.withLock { $0.objects[request.path, default: []].append(digest) }
        return OriginReply(201)
    }

    /// The only file of a form. It is the last part.
    private static func fileOfForm(_ request: OriginRequest) -> [UInt8]? {
        guard let boundary = request.headers["content-type"]?.split(separator: "boundary=").last else { return nil }
        let end = Array("\r\n--\(boundary)--\r\n".utf8)
        let bytes = request.body.bytes
        // The heads of the parts are short. The first blank line precedes the field's value, the second one the file.
        let head = bytes.prefix(2000)
        let blank = head.indices.filter { head[$0...].starts(with: "\r\n\r\n".utf8) }
        guard blank.count > 1, bytes.suffix(end.count) == end[...] else { return nil }
        return Array(bytes[(blank[1] + 4)..<(bytes.count - end.count)])
    }

    private func answerTus(_ request: OriginRequest) -> OriginReply {
        state.withLock { state in
            let path = request.path
            switch request.method {
            case "OPTIONS":
                let headers = [("Tus-Version", "1.0.0"), ("Tus-Extension", "creation,termination")]
                return OriginReply(204, headers: headers)
            case "POST":
                state.made += 1
                let path = "\(Self.tus)/\(state.made)"
                state.files[path] = TusFile(length: request.headers["upload-length"].flatMap { Int($0) } ?? 0)
                return OriginReply(201, headers: [("Location", path)])
            case "DELETE": return OriginReply(state.files.removeValue(forKey: path) == nil ? 404 : 204)
            default:
                guard let file = state.files[path] else { return OriginReply(404) }
                let reported = [("Upload-Offset", "\(file.bytes.count)"), ("Upload-Length", "\(file.length)")]
                guard request.method == "PATCH" else {
                    return OriginReply(file.isLocked ? 423 : 200, headers: reported)
                }
                state.files[path]?.isLocked = false
                if file.bytes.count == file.length {
                    state.objects[Self.tus, default: []].append(SHA256.digest(file.bytes))
                }
                return OriginReply(204, headers: reported)
            }
        }
    }
}
