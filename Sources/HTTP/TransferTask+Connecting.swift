import CHaulCurl
import Glibc
import HaulExecutors

// What libcurl asks and tells until the request is sent.
extension TransferTask {
    /// With a proxy only the proxy is connected to, and that is the operator's choice.
    private func refusal(of address: IPAddress?) -> TransferError? {
        guard configuration.proxy == nil else { return nil }
        guard let address else { return .forbidden("of an unknown family", "unknown") }
        return configuration.policy.refusal(of: address, hostAddresses: shared.hostAddresses)
            .map { .forbidden("\(address)", $0) }
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

    /// Called before the request is sent, also on a connection that is used again.
    func mayUse(_ address: String, _ remotePort: UInt16, from port: UInt16) -> Int32 {
        expect()
        let session = easy.flatMap { TLSSession.of($0) }
        let peer = IPAddress(address)
        if let refusal = refusal(of: peer) {
            connection.refusePeer(refusal)
            return CURL_PREREQFUNC_ABORT
        }
        if connection.sockets.isEmpty, hasStrayInput(session, from: port, to: peer, remotePort) {
            connection.meetStrayInput()
            return CURL_PREREQFUNC_ABORT
        }
        request.sending?.begin()
        connection.use(TransferConnection.Peer(address: address, localPort: port, session: session))
        return CURL_PREREQFUNC_OK
    }

    /// Whether an idle connection has input: a response that nobody asked for, which this request would take for its own.
    /// With HTTP/2 each response says whose it is. What else a TLS connection may have to say while it is idle is rare, and
    /// worth no more than a new connection: its tickets come before the first response.
    private func hasStrayInput(
        _ session: TLSSession?, from port: UInt16, to peer: IPAddress?, _ remotePort: UInt16
    ) -> Bool {
        guard session?.isHTTP2 != true else { return false }
        return shared.connections.endIfStray(from: port, to: peer, remotePort)
            || easy.map { TLSSession.hasUnreadInput($0) } ?? false
    }

    /// A server may know the request, or even the connection, and serve somebody else.
    func isUnanswered(_ now: UInt64) -> Bool {
        !isRetired && state.head == nil && !connection.sockets.isEmpty
            && now > state.expecting + ConnectionSockets.idleLeast
    }

    /// Why there is no head, now that libcurl has ended with `code`.
    func headFailure(_ code: CURLcode, _ end: TransferState.LibraryEnd) -> HeadFailure {
        if case .stopping(.failed(let error)) = state.phase { return HeadFailure(error: error) }
        let error: TransferError = if case .failed(let error) = end { error } else { .failed(self, code) }
        if outgoing?.isQuestionRefused == true { return HeadFailure(error: error, remedy: .unasked) }
        if connection.isStray { return HeadFailure(error: error, remedy: .newConnection) }
        if code == CURLE_COULDNT_RESOLVE_HOST { return HeadFailure(error: error, remedy: .resolver) }
        return HeadFailure(
            error: error, remedy: seemsToNeedHTTP2(code) ? .http2 : nil,
            isOfHTTP2: connection.peer?.session?.isHTTP2 == true)
    }

    /// Whether it failed as it does with servers that speak nothing but HTTP/2, which was not offered: they tell so by an
    /// alert, or end a connection on which no protocol was agreed, or speak it all the same.
    private func seemsToNeedHTTP2(_ code: CURLcode) -> Bool {
        guard let easy, !easy.offersHTTP2, !connection.sockets.isEmpty else { return false }
        switch code {
        case CURLE_SSL_CONNECT_ERROR: return easy.errorMessage.contains("no application protocol")
        case CURLE_GOT_NOTHING, CURLE_SEND_ERROR, CURLE_RECV_ERROR, CURLE_UNSUPPORTED_PROTOCOL,
            CURLE_WEIRD_SERVER_REPLY:
            guard let session = connection.peer?.session, request.method == "GET" || request.method == "HEAD" else {
                return false
            }
            return !session.hasAgreedProtocol
        default: return false
        }
    }
}
