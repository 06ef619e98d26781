package import HaulHTTP

/// Where jobs find the files that they send. No path leads out of it.
package protocol SourceFolder: Sendable {
    /// Opens a finished file to be sent.
    ///
    /// - Throws: `source_missing`; `path_forbidden` if a link leads out of the folder; `permission`; `bad_job` if it is
    ///   not a regular file.
    func source(_ path: String) async throws(TransferError) -> any SourceFile
}

/// A finished file that is being sent.
package protocol SourceFile: AnyObject, Sendable {
    /// The version of the file when it was opened.
    var version: SourceVersion { get }

    /// Bytes; nil while that is not known, which only a `SourceStream` may have.
    var size: Int64? { get }

    /// The number of bytes that should be read at once.
    var readSize: Int64 { get }

    /// Reads a range of the file.
    ///
    /// - Throws: `source_changed` if there are fewer bytes.
    func read(_ range: Range<Int64>) async throws(TransferError) -> [UInt8]

    /// Checks that the file is the same.
    ///
    /// - Throws: `source_changed` if its path leads to another file, or if the file has another version.
    func check() async throws(TransferError)
}

extension SourceFile {
    package var size: Int64? { version.size }
    package var readSize: Int64 { 256 << 10 }
}

/// Identifies one version of a file that is sent.
package struct SourceVersion: Sendable, Equatable {
    /// The size in bytes.
    package let size: Int64
    /// What the store tells versions of the same size apart by, such as an ETag. The format is the store's own.
    package let validator: String

    package init(size: Int64, validator: String) { (self.size, self.validator) = (size, validator) }

    /// The version of a file in a directory. `modified` is its time of modification in nanoseconds.
    package init(size: Int64, modified: Int64, inode: UInt64) {
        self.init(size: size, validator: "\(modified) \(inode)")
    }

    /// The text that a resume point keeps.
    package var text: String { "\(size) \(validator)" }
}
