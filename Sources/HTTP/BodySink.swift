/// Takes the bytes of one body, in order: the seam between the network and whatever keeps the bytes.
///
/// All but `finish` is called on the engine's thread, and must not block.
package protocol BodySink: AnyObject, Sendable {
    /// Takes all of `count` bytes (at most 64 KiB; libcurl brings 16 KiB at once), or none of them.
    func append(_ bytes: UnsafeRawPointer, _ count: Int) -> SinkAnswer

    /// No more bytes will come for a while, so memory that is kept for them is better given back.
    func rest()

    /// Other bodies wait for memory: what was taken should go on its way, though more would follow soon.
    func handOver()

    /// Nothing is appended any more.
    func end()

    /// Ends, and returns when all that was taken is where it belongs (not synced).
    ///
    /// - Throws: What kept bytes from getting there.
    func finish() async throws(TransferError)
}

/// What a sink makes of the bytes that it is given.
package enum SinkAnswer: Sendable {
    case taken
    /// There is no memory for them now. The sink calls `wake` once when it is worth trying again.
    case wait
    case failed(TransferError)
}

/// Makes sinks for the bodies that are to be put together in it, at any offsets and any number of them at once.
package protocol BodyDestination: Sendable {
    /// A sink for the bytes from `offset` on.
    ///
    /// - Parameter wake: Makes the body go on that was told to wait. False if it has no use for that any more, so that
    ///   another may be woken.
    func sink(at offset: Int64, wake: @escaping @Sendable () async -> Bool) -> any BodySink
}
