import CHaulLinux

// What the connection's socket tells, and what it is told, of the way to the server.
extension TransferTask {
    /// What the sender may have sent of the end while it was still told of more: bytes.
    private static let slack = 16 << 10
    /// A window of this size is never too large.
    private static let largestBound: Int64 = 32 << 20

    /// Looks at the connection when the head is there, and then each time the body has grown by a quarter, until losses are seen.
    func lookAtPath() {
        guard taken >= nextLook else { return }
        nextLook = progress.path?.isLossy == true ? .max : taken + max(64 << 10, taken / 4)
        var path = clinux_path()
        guard mark.socket >= 0, clinux_look_at_path(mark.socket, &path) == 0, path.round_trip > 0 else { return }
        // Where a queue has built up it was that which dropped packets, and other connections would meet it, too.
        let isQueueing = path.received_round_trip > path.round_trip + path.round_trip / 2
        progress.note(
            TransferPath(roundTrip: Double(path.round_trip) / 1e6, isLossy: path.out_of_order > 0 && !isQueueing))
    }

    /// Lets the server send hardly more than what is still wanted of a shortened response: on a long way the bytes beyond
    /// would be as many as all others that are under way, and in theirs.
    func boundWindow(_ wanted: Int64) {
        guard wanted < Self.largestBound, wanted < bound - bound / 16, mark.socket >= 0 else { return }
        bound = wanted
        clinux_bound_window(mark.socket, Int32(wanted) + Int32(Self.slack))
    }
}
