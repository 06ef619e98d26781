package import HaulHTTP

/// A file whose bytes come once and in order, such as a pipe. Only a part of them is kept: those that may have to be
/// sent again.
package protocol SourceStream: SourceFile {
    /// Learns the length, if that is required or the stream ends soon.
    ///
    /// - Parameter isRequired: The whole stream is stored, so that its length and its digest can be known.
    /// - Throws: `io` if the stream cannot be read or stored; `source_changed` if bytes that are required are dropped.
    func findSize(isRequired: Bool) async throws(TransferError)

    /// Waits until `count` bytes from `offset` on are kept, or the stream has ended. Returns where the kept bytes end.
    func waitForBytes(_ count: Int64, from offset: Int64) async throws(TransferError) -> Int64

    /// Where the kept bytes begin.
    var keptFrom: Int64 { get }

    /// Drops the bytes before `offset`, because the server has them.
    func drop(before offset: Int64)

    /// The whole stream as a body without a length. It can be sent again as long as its first bytes are kept.
    var body: any BodySupply { get }
}
