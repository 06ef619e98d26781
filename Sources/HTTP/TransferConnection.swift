/// The connection that a request goes over, as far as libcurl tells of it. A value: it opens and closes nothing.
struct TransferConnection {
    enum Phase {
        case connecting
        /// Its address is not allowed, or no socket could be opened. While it is connecting another address may be.
        case refused(TransferError)
        /// A kept connection had input that nobody had asked for. Nothing was sent on it.
        case stray
        /// The request is sent on it.
        case used(Peer)
    }

    struct Peer {
        /// Numeric.
        let address: String
        let localPort: UInt16
        /// nil without TLS.
        let session: TLSSession?
    }

    private(set) var phase = Phase.connecting
    /// Those that were opened for it; none on a connection that is used again.
    private(set) var sockets: Set<Int32> = []

    var peer: Peer? { if case .used(let peer) = phase { peer } else { nil } }
    var isConnected: Bool { peer != nil }
    var isStray: Bool { if case .stray = phase { true } else { false } }
    /// Why it was not connected, if that was our own doing. libcurl only tells that it was not.
    var refusal: TransferError? { if case .refused(let error) = phase, sockets.isEmpty { error } else { nil } }

    mutating func opened(_ socket: Int32) {
        sockets.insert(socket)
        phase = .connecting
    }

    /// One of the server's addresses was refused before a socket was opened.
    mutating func refuseAddress(_ error: TransferError) { phase = .refused(error) }

    /// The request is about to be sent.
    mutating func use(_ peer: Peer) { phase = .used(peer) }

    /// Nothing may be sent to the address that it is connected to.
    mutating func refusePeer(_ error: TransferError) {
        phase = .refused(error)
        sockets = []
    }

    mutating func meetStrayInput() { phase = .stray }
}
