import CHaulCurl
import Glibc
import HaulExecutors

// libcurl's callbacks until the request is sent.
extension TransferTask {
    /// With a proxy we connect only to the proxy, which the operator has chosen.
    private func refusal(of address: IPAddress?) -> TransferError? {
        guard configuration.proxy == nil, configuration.unixSocket == nil else { return nil }
        guard let address else { return .forbidden(nil, "of an unknown family", of: request.url) }
        return configuration.policy.refusal(of: address, hostAddresses: shared.hostAddresses)
            .map { .forbidden(address, $0, of: request.url) }
    }

    func openSocket(_ address: UnsafeMutablePointer<curl_sockaddr>) -> curl_socket_t {
        let target = withUnsafePointer(to: &address.pointee.addr) { IPAddress($0) }
        if let refusal = refusal(of: target) {
            connection.refuseAddress(refusal)
            return CURL_SOCKET_BAD
        }
        let type = address.pointee.socktype | Int32(SOCK_CLOEXEC.rawValue)
        let socket = socket(address.pointee.family, type, address.pointee.protocol)
        if socket < 0 {
            connection.refuseAddress(.localLimit(errno))
        } else {
            connection.opened(socket)
            shared.connections.opened(socket)
        }
        return socket
    }

    /// Whether the request may be sent on the connection. Called before each request, even on a kept connection.
    func mayUse(_ address: String, _ remotePort: UInt16, from port: UInt16) -> Int32 {
        expect()
        let session = easy.flatMap { TLSSession.of($0) }
        let peer = IPAddress(address)
        if let refusal = refusal(of: peer) {
            connection.refusePeer(refusal)
            return CURL_PREREQFUNC_ABORT
        }
        // After a kept connection has failed, libcurl repeats the request by itself, on one kept connection after the
        // other. Once is enough, and then on a new one.
        let isRepeated = connection.isConnected
        if connection.sockets.isEmpty, isRepeated || hasUnsolicitedInput(session, from: port, to: peer, remotePort) {
            connection.markStale()
            return CURL_PREREQFUNC_ABORT
        }
        request.sending?.begin()
        connection.use(TransferConnection.Peer(address: address, localPort: port, session: session))
        return CURL_PREREQFUNC_OK
    }

    /// Whether an idle connection has input: an unsolicited response, which this request would take for its own. With
    /// HTTP/2 each response names its request. Other input on an idle TLS connection is rare, since session tickets
    /// precede the first response. Then a new connection costs little.
    private func hasUnsolicitedInput(
        _ session: TLSSession?, from port: UInt16, to peer: IPAddress?, _ remotePort: UInt16
    ) -> Bool {
        guard session?.isHTTP2 != true else { return false }
        return shared.connections.endIfUnsolicited(from: port, to: peer, remotePort)
            || easy.map { TLSSession.hasUnreadInput($0) } ?? false
    }

    /// Whether the server has sent no response to the request for a while. It may be busy with another connection.
    func isWithoutResponse(_ now: UInt64) -> Bool {
        !isRetired && state.head == nil && !connection.sockets.isEmpty
            && now > state.expectingSince + ConnectionSockets.minIdleTime
    }

    /// Why there is no head, once libcurl has ended with `code`.
    func headFailure(_ code: CURLcode, _ end: TransferState.CurlEnd) -> HeadFailure {
        if case .stopping(.failed(let error)) = state.phase { return HeadFailure(error: error) }
        let error: TransferError = if case .failed(let error) = end { error } else { .failed(self, code) }
        if outgoing?.isExpectationRefused == true { return HeadFailure(error: error, remedy: .withoutExpect) }
        if connection.isStale { return HeadFailure(error: error, remedy: .newConnection) }
        if code == CURLE_COULDNT_RESOLVE_HOST { return HeadFailure(error: error, remedy: .resolver) }
        return HeadFailure(
            error: error, remedy: seemsToNeedHTTP2(code) ? .http2 : nil,
            usedHTTP2: connection.peer?.session?.isHTTP2 == true)
    }

    /// Whether the failure is typical of servers that speak only HTTP/2, which was not offered. They send a TLS alert,
    /// end a connection on which no protocol was agreed, or speak HTTP/2 all the same.
    private func seemsToNeedHTTP2(_ code: CURLcode) -> Bool {
        guard let easy, !easy.offersHTTP2, !connection.sockets.isEmpty else { return false }
        switch code {
        case CURLE_SSL_CONNECT_ERROR: return easy.errorMessage.contains("no application protocol")
        case CURLE_GOT_NOTHING, CURLE_SEND_ERROR, CURLE_RECV_ERROR, CURLE_UNSUPPORTED_PROTOCOL,
            CURLE_WEIRD_SERVER_REPLY:
            guard let session = connection.peer?.session, request.method == "GET" || request.method == "HEAD" else {
                return false
            }
            return !session.hasNegotiatedProtocol
        default: return false
        }
    }
}
