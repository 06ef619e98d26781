import Foundation
import Glibc

/// A gateway in front of an object store. It can hold a request back, let its client see a lost connection, and deliver
/// the request later, unchanged.
package final class LateGateway: Sendable {
    private struct State {
        var isToKeep: (@Sendable (String) -> Bool)?
        var kept: [[UInt8]] = []
        var isToPair: (@Sendable (String) -> Bool)?
        var apart: UInt32 = 0
        var paired = 0
        var isToHold: (@Sendable (String) -> Bool)?
        var isHolding = false
        var isToEdit: (@Sendable (String) -> Bool)?
        var edit: @Sendable (String) -> String = { $0 }
    }

    private let server: RawServer
    private let port: Int
    private let state: Shared<State>
    private let gate: Latch

    /// - Parameter endpoint: `http://127.0.0.1:PORT`
    package init(to endpoint: String) {
        let port = URL(string: endpoint)!.port!
        let state = Shared(State())
        let gate = Latch()
        (self.port, self.state, self.gate) = (port, state, gate)
        server = RawServer { connection in
            while let head = connection.readRequest() {
                let lines = head.components(separatedBy: "\r\n")
                func field(_ name: String) -> String? {
                    lines.first { $0.lowercased().hasPrefix(name + ":") }.map {
                        $0.dropFirst(name.count + 1).trimmingCharacters(in: .whitespaces)
                    }
                }
                if field("expect") != nil { connection.send("HTTP/1.1 100 Continue\r\n\r\n") }
                guard let body = connection.readBody(field("content-length").flatMap { Int($0) } ?? 0) else {
                    return
                }
                let others = lines.filter { !$0.isEmpty && !$0.lowercased().hasPrefix("expect:") }
                let request = Array((others + ["Connection: close", "", ""]).joined(separator: "\r\n").utf8) + body
                var isKept = false
                state.change { state in
                    guard state.isToKeep?(head) ?? false else { return }
                    (state.isToKeep, isKept) = (nil, true)
                    state.kept.append(request)
                }
                if state.value.isToPair?(head) ?? false {
                    state.change { $0.paired += 1 }
                    if state.value.paired > 1 { usleep(state.value.apart) }
                    for _ in 0..<200 where state.value.paired < 2 { usleep(5000) }
                }
                if !isKept {
                    var response = Self.exchange(request, port)
                    if state.value.isToEdit?(head) ?? false {
                        response = Array(state.value.edit(String(decoding: response, as: UTF8.self)).utf8)
                    }
                    if state.value.isToHold?(head) ?? false {
                        state.change { $0.isHolding = true }
                        gate.wait()
                    }
                    connection.send(response)
                }
                return
            }
        }
    }

    deinit { server.stop() }

    package var endpoint: String { "http://127.0.0.1:\(server.port)" }

    /// Holds back the next request whose head `matches`. Its client sees the connection end.
    package func keep(_ matches: @escaping @Sendable (String) -> Bool) { state.change { $0.isToKeep = matches } }

    /// Delays the next request whose head `matches` until another one has come, or for a second if none does.
    ///
    /// - Parameter apart: Microseconds by which that one is delayed.
    package func pair(apart: UInt32, _ matches: @escaping @Sendable (String) -> Bool) {
        state.change { ($0.isToPair, $0.apart, $0.paired) = (matches, apart, 0) }
    }

    /// Delivers requests whose head `matches`, but holds their responses back until `release()`.
    package func holdResponses(to matches: @escaping @Sendable (String) -> Bool) {
        state.change { $0.isToHold = matches }
    }

    /// Changes the responses, which must be text, to requests whose head `matches`.
    package func editResponses(
        to matches: @escaping @Sendable (String) -> Bool, _ edit: @escaping @Sendable (String) -> String
    ) {
        state.change { ($0.isToEdit, $0.edit) = (matches, edit) }
    }

    /// Whether the response to a request that was executed is held back.
    package var isHolding: Bool { state.value.isHolding }

    package func release() { gate.open() }

    package var hasKept: Bool { !state.value.kept.isEmpty }

    /// Delivers the requests that were held back. Returns the status lines of the responses.
    package func deliver() -> [String] {
        state.value.kept.map { request in
            let response = String(decoding: Self.exchange(request, port), as: UTF8.self)
            return response.components(separatedBy: "\r\n").first ?? ""
        }
    }

    private static func exchange(_ request: [UInt8], _ port: Int) -> [UInt8] {
        guard let socket = try? LoopbackSocket.connect(.v4, port: port) else { return [] }
        let store = RawConnection(descriptor: socket)
        defer { store.close() }
        guard store.send(request) else { return [] }
        var response: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 64 << 10)
        while case let count = recv(socket, &buffer, buffer.count, 0), count > 0 { response += buffer[..<count] }
        return response
    }
}
