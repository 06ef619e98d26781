import CHaulLinux

// What the connection's socket tells, and what it is told, of the way to the server.
extension TransferTask {
    /// What the sender may have sent of the end while it was still told of more: bytes.
    private static let slack: Int64 = 16 << 10
    /// A window of this size is never too large.
    private static let largestBound: Int64 = 32 << 20
    /// The window is told anew after so many bytes.
    private static let boundStep: Int64 = 32 << 10
    /// The connection is looked at again after so many bytes at least and at most, or after so many nanoseconds.
    private static let looks: (least: Int64, most: Int64, time: UInt64) = (64 << 10, 4 << 20, 200_000_000)

    /// Looks at the connection when the head is there, and then each time the body has grown by a quarter, or some time has
    /// passed.
    func lookAtPath() {
        guard taken >= nextLook.bytes || expecting >= nextLook.time else { return }
        nextLook = (taken + min(max(Self.looks.least, taken / 4), Self.looks.most), expecting + Self.looks.time)
        var path = clinux_path()
        guard mark.socket >= 0, clinux_look_at_path(mark.socket, &path) == 0, path.round_trip > 0 else { return }
        let roundTrip = Double(path.round_trip) / 1e6
        let delay = path.received_round_trip == 0 ? roundTrip : Double(path.received_round_trip) / 1e6
        let seen = TransferPath(roundTrip: roundTrip, delay: delay, window: Int64(path.window), isLossy: false)
        // Where a queue has built up it is that which drops packets, and other connections would meet it, too.
        isQueueing = seen.isQueueing
        hasQueued = hasQueued || isQueueing
        progress.note(seen, isLossy: path.out_of_order > 0 && !hasQueued)
    }

    /// Lets the server send hardly more than what is still wanted of a shortened response: on a long way the bytes beyond
    /// would be as many as all others that are under way, and in theirs.
    ///
    /// What TCP has told once it cannot take back, and it tells of the window anew with each packet that has come. So it is
    /// told at each step what is wanted beyond those bytes that wait in the socket. Where a queue has built up packets are
    /// likely to be lost, and what has come behind a lost one moves the window on at once. Half of it is enough there: what
    /// is under way fills the link more than once.
    func boundWindow(_ wanted: Int64) {
        guard wanted < Self.largestBound, wanted <= bound - Self.boundStep, mark.socket >= 0 else { return }
        bound = wanted
        let beyond = max(0, wanted - Int64(clinux_waiting(mark.socket))) / (isQueueing ? 2 : 1)
        clinux_bound_window(mark.socket, Int32(beyond + Self.slack))
    }
}
