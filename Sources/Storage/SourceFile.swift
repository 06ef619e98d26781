package import HaulHTTP

/// A finished file of a store, while it is sent.
package protocol SourceFile: AnyObject, Sendable {
    /// What it was when it was opened.
    var version: SourceVersion { get }

    /// The bytes of a range of it.
    ///
    /// - Throws: `source_changed` if there are fewer.
    func read(_ range: Range<Int64>) async throws(TransferError) -> [UInt8]

    /// - Throws: `source_changed` if its path does not lead to the same file any more, or the file is another version.
    func check() async throws(TransferError)
}

/// What tells one version of a file that is sent from another one.
package struct SourceVersion: Sendable, Equatable {
    /// Bytes.
    package let size: Int64
    /// Nanoseconds since 1970.
    package let modified: Int64
    /// Tells it from another file that is put in its place.
    package let identity: UInt64

    package init(size: Int64, modified: Int64, identity: UInt64) {
        (self.size, self.modified, self.identity) = (size, modified, identity)
    }

    /// As a resume point keeps it.
    package var text: String { "\(size) \(modified) \(identity)" }
}
