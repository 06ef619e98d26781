package import HaulHTTP

/// A finished file of a store, while it is sent.
package protocol SourceFile: AnyObject, Sendable {
    /// What it was when it was opened.
    var version: SourceVersion { get }

    /// Bytes that are best read at once.
    var portion: Int64 { get }

    /// The bytes of a range of it.
    ///
    /// - Throws: `source_changed` if there are fewer.
    func read(_ range: Range<Int64>) async throws(TransferError) -> [UInt8]

    /// - Throws: `source_changed` if its path does not lead to the same file any more, or the file is another version.
    func check() async throws(TransferError)
}

extension SourceFile {
    package var portion: Int64 { 256 << 10 }
}

/// What tells one version of a file that is sent from another one.
package struct SourceVersion: Sendable, Equatable {
    /// Bytes.
    package let size: Int64
    /// What else the store tells versions apart by, in words of its own.
    package let mark: String

    package init(size: Int64, mark: String) { (self.size, self.mark) = (size, mark) }

    /// As a resume point keeps it.
    package var text: String { "\(size) \(mark)" }
}
