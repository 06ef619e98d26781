/// The connection of a request, as far as libcurl reports it. A value: it opens and closes nothing.
struct TransferConnection {
    enum Phase {
        case connecting
        /// An address is not allowed, or no socket could be opened. While connecting, the next address may work.
        case refused(TransferError)
        /// The reused connection had unsolicited input, or another reused one has just failed. Nothing was sent on it.
        case stale
        /// The request is sent on this connection.
        case used(Peer)
    }

    struct Peer {
        /// The numeric address.
        let address: String
        let localPort: UInt16
        /// nil without TLS.
        let session: TLSSession?
    }

    private(set) var phase = Phase.connecting
    /// The sockets that were opened for the request; empty if it reuses a connection.
    private(set) var sockets: Set<Int32> = []

    var peer: Peer? { if case .used(let peer) = phase { peer } else { nil } }
    var isConnected: Bool { peer != nil }
    var isStale: Bool { if case .stale = phase { true } else { false } }
    /// Why there is no connection, if we refused it ourselves. libcurl only reports that there is none.
    var refusal: TransferError? { if case .refused(let error) = phase, sockets.isEmpty { error } else { nil } }

    mutating func opened(_ socket: Int32) {
        sockets.insert(socket)
        phase = .connecting
    }

    /// An address of the server was refused before a socket was opened, or no socket could be opened.
    mutating func refuseAddress(_ error: TransferError) { phase = .refused(error) }

    /// The request is about to be sent.
    mutating func use(_ peer: Peer) { phase = .used(peer) }

    /// The address of the connection is not allowed: nothing may be sent on it.
    mutating func refusePeer(_ error: TransferError) {
        phase = .refused(error)
        sockets = []
    }

    mutating func markStale() { phase = .stale }
}
