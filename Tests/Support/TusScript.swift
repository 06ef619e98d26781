import Synchronization

/// A tus server as a handler of `OriginServer`. It can send wrong responses. It stores uploads in memory.
package final class TusScript: Sendable {
    /// What the server does wrong. Each wrong response is sent as often as the values here say.
    package struct Lies: Sendable {
        /// The statuses of the next responses to HEAD and PATCH, in order.
        package var head: [Int] = []
        package var patch: [Int] = []
        /// The numbers of bytes that the next responses to HEAD drop from the end of the upload.
        package var backwards: [Int] = []
        /// How many responses to PATCH report one byte more than was received.
        package var ahead = 0
        /// How many responses to HEAD report a length of one byte more.
        package var otherLength = 0
        package init() {}
    }

    private struct State {
        /// The length is nil until the client has announced it.
        var uploads: [String: (length: Int?, bytes: [UInt8])] = [:]
        var lies: Lies
        var terminated: [String] = []
        var wrongChecksums = 0
    }

    private let extensions: String
    private let maximum: Int?
    private let state: Mutex<State>

    /// - Parameter extensions: The value of Tus-Extension. "" makes the server respond to OPTIONS with 404.
    package init(
        extensions: String = "creation,termination", maximum: Int? = nil, lies: Lies = Lies()
    ) {
        (self.extensions, self.maximum) = (extensions, maximum)
        state = Mutex(State(lies: lies))
    }

    /// The content of each complete upload.
    package var finished: [[UInt8]] {
        state.withLock { $0.uploads.values.filter { $0.bytes.count == $0.length }.map(\.bytes) }
    }
    package var uploads: Int { state.withLock { $0.uploads.count } }
    package var terminated: [String] { state.withLock { $0.terminated } }

    /// Drops all uploads.
    package func forget() { state.withLock { $0.uploads = [:] } }

    /// Appends bytes to an upload, even those of a request that was cut. Returns the new offset, or nil if `offset` is
    /// wrong.
    package func take(_ path: String, _ offset: Int?, _ bytes: [UInt8]) -> Int? {
        state.withLock { state in
            guard let upload = state.uploads[path], upload.bytes.count == offset else { return nil }
            state.uploads[path]!.bytes += bytes
            return upload.bytes.count + bytes.count
        }
    }

    package func answer(_ request: OriginRequest) -> OriginReply {
        var reply = self.reply(request)
        reply.headers.append(("Tus-Resumable", "1.0.0"))
        if [201, 204].contains(reply.status) { reply.framing = reply.status == 204 ? .none : .length }
        return reply
    }

    private func reply(_ request: OriginRequest) -> OriginReply {
        switch request.method {
        case "OPTIONS":
            guard !extensions.isEmpty else { return OriginReply(404) }
            var headers = [
                ("Tus-Version", "1.0.0,0.2.2"), ("Tus-Extension", extensions), ("Tus-Checksum-Algorithm", "md5,sha1"),
            ]
            if let maximum { headers.append(("Tus-Max-Size", "\(maximum)")) }
            return OriginReply(204, headers: headers)
        case "POST":
            let isDeferred = request.headers["upload-defer-length"] == "1"
            guard !isDeferred || extensions.contains("creation-defer-length") else { return OriginReply(400) }
            let length = isDeferred ? nil : request.headers["upload-length"].flatMap { Int($0) } ?? 0
            let path = state.withLock { state in
                let path = "/files/\(state.uploads.count + state.terminated.count + request.number)"
                state.uploads[path] = (length, [])
                return path
            }
            return OriginReply(201, headers: [("Location", path)])
        case "HEAD": return state.withLock { Self.head(request, &$0) }
        case "PATCH": return patch(request)
        case "DELETE":
            return state.withLock { state in
                guard state.uploads.removeValue(forKey: request.path) != nil else { return OriginReply(404) }
                state.terminated.append(request.path)
                return OriginReply(204)
            }
        default: return OriginReply(405)
        }
    }

    private static func head(_ request: OriginRequest, _ state: inout State) -> OriginReply {
        if !state.lies.head.isEmpty {
            let status = state.lies.head.removeFirst()
            if [404, 410].contains(status) { state.uploads[request.path] = nil }
            return OriginReply(status)
        }
        guard let upload = state.uploads[request.path] else { return OriginReply(404) }
        if !state.lies.backwards.isEmpty {
            state.uploads[request.path]!.bytes = upload.bytes.dropLast(state.lies.backwards.removeFirst())
        }
        var length = upload.length ?? 0
        if state.lies.otherLength > 0 {
            state.lies.otherLength -= 1
            length += 1
        }
        return OriginReply(
            200,
            headers: [
                ("Upload-Offset", "\(state.uploads[request.path]!.bytes.count)"),
                upload.length == nil ? ("Upload-Defer-Length", "1") : ("Upload-Length", "\(length)"),
            ])
    }

    private func patch(_ request: OriginRequest) -> OriginReply {
        let lie = state.withLock { state in state.lies.patch.isEmpty ? nil : state.lies.patch.removeFirst() }
        if let lie {
            if [404, 410].contains(lie) { state.withLock { $0.uploads[request.path] = nil } }
            return OriginReply(lie)
        }
        let offset = request.headers["upload-offset"].flatMap { Int($0) }
        if let length = request.headers["upload-length"].flatMap({ Int($0) }) {
            // tusd refuses a length that it knows.
            guard state.withLock({ $0.uploads[request.path].map { $0.length == nil } ?? true }) else {
                return OriginReply(400)
            }
            state.withLock { $0.uploads[request.path]?.length = length }
        }
        guard let end = take(request.path, offset, request.body.bytes) else {
            return OriginReply(state.withLock { $0.uploads[request.path] } == nil ? 404 : 409)
        }
        let isAhead = state.withLock { state in
            defer { state.lies.ahead = max(0, state.lies.ahead - 1) }
            return state.lies.ahead > 0
        }
        return OriginReply(204, headers: [("Upload-Offset", "\(isAhead ? end + 1 : end)")])
    }
}
