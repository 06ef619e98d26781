package import HaulContract
package import HaulHTTP

/// A file that may be where a download is to go, and that no record tells of. Who downloads for a person looks at it before
/// any of the body is taken.
package protocol ExistingFile: Sendable {
    /// A date of HTTP: only what has changed since is wanted (RFC 9110 section 13.1.3). nil: whatever the server has.
    var modifiedSince: String? { get }

    /// What there is to tell of the file that is there, if it is what is offered: it is then the result. nil: there is none, or
    /// it may be replaced.
    ///
    /// - Throws: What keeps the download from going on.
    func answer(to offer: Offer) async throws(TransferError) -> CompletedFile?
}

/// What a server has for us, by the head of its response.
package struct Offer: Sendable {
    /// The file's name, unless the job gives one.
    package let name: String
    package let entity: Entity
    /// The URL, masked, that was asked.
    package let source: String
    /// The server says that nothing has changed since `modifiedSince`, and sends nothing.
    package let isUnmodified: Bool
}
