/// Accepts the bytes of one body, in order: the protocol between the network and whatever stores the bytes.
///
/// The engine calls everything but `finish` on its own thread. These calls must not block.
package protocol BodySink: AnyObject, Sendable {
    /// Accepts all of `count` bytes, or none of them. `count` is at most 64 KiB; libcurl delivers 16 KiB at a time.
    func append(_ bytes: UnsafeRawPointer, _ count: Int) -> SinkResult

    /// No more bytes will arrive for a while: the sink should release memory that it holds for them.
    func releaseMemory()

    /// Other bodies wait for memory: the sink should pass on the bytes that it holds, even if more would follow soon.
    func handOver()

    /// Nothing is appended after this call.
    func end()

    /// Ends the sink, and returns when all bytes that it has accepted are in the store (not synced).
    ///
    /// - Throws: The error that kept bytes from being stored.
    func finish() async throws(TransferError)
}

/// What a sink does with the bytes that it is offered.
package enum SinkResult: Sendable {
    case accepted
    /// There is no memory for the bytes now. The sink calls `wake` once when it is worth trying again.
    case wait
    case failed(TransferError)
}

/// Makes sinks for the bodies that are combined in it: at any offset, and any number of them at once.
package protocol BodyDestination: Sendable {
    /// A sink for the bytes from `offset` on.
    ///
    /// - Parameter wake: Resumes a body whose sink returned `wait`. Returns false if the body needs no memory any more,
    ///   so that another body may be woken.
    func sink(at offset: Int64, wake: @escaping @Sendable () async -> Bool) -> any BodySink
}
