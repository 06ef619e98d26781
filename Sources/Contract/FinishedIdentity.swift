/// Tells a finished file from another file that may have replaced it.
package struct FinishedIdentity: Sendable, Equatable {
    /// On a file system without persistent inode numbers a substitute that is made of size and time.
    package var inode: UInt64
    /// nil if only the inode is known.
    package var bytes: Int64?
    /// Nanoseconds since 1970.
    package var modified: Int64?

    package init(inode: UInt64, bytes: Int64? = nil, modified: Int64? = nil) {
        (self.inode, self.bytes, self.modified) = (inode, bytes, modified)
    }
}

extension CompletedFile {
    package var identity: FinishedIdentity { FinishedIdentity(inode: inode, bytes: bytes, modified: modified) }
}
