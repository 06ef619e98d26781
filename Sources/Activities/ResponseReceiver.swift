package import HaulHTTP

/// Takes the bodies of expected responses as they arrive, for a command that prints them. Without a receiver a response
/// is kept in memory, up to the job's `max_response`.
package protocol ResponseReceiver: Sendable {
    /// Where the body of this response goes.
    func destination(for head: ResponseHead) -> any BodyDestination
}
