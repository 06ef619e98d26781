package import HaulContract
package import HaulHTTP
package import HaulStorage

/// A file that may already be at a download's target, although no record mentions it. `haul get` checks it first.
package protocol ExistingFile: Sendable {
    /// The HTTP date for If-Modified-Since (RFC 9110 section 13.1.3). nil: the request has no condition.
    var modifiedSince: String? { get }

    /// The record of the existing file, if it is what the server offers: the file is then the download's result. nil if
    /// there is no file, or if it may be replaced.
    ///
    /// - Throws: `TransferError` if the download cannot go on.
    func completedFile(for offer: Offer) async throws(TransferError) -> CompletedFile?

    /// Whether `checkReplacement` compares the files.
    var isCompared: Bool { get }

    /// Called once all bytes of `entity` are in `partial`, and before they replace the existing file.
    ///
    /// - Throws: `TransferError` if they must not replace it.
    func checkReplacement(by partial: any Partial, of entity: Entity) async throws(TransferError)
}

/// What the server offers, by the head of its response.
package struct Offer: Sendable {
    /// The file's name, unless the job gives one.
    package let name: String
    package let entity: Entity
    /// The requested URL, masked.
    package let source: String
    /// The server says that nothing has changed since `modifiedSince`. The response has no body.
    package let isUnmodified: Bool
    /// Bytes of the existing file were joined with the server's, and the whole did not have the checksum.
    package let hasMismatch: Bool
}
