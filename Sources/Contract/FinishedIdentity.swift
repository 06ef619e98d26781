/// What tells a finished file from any other that may have taken its place.
public struct FinishedIdentity: Sendable, Equatable {
    /// On a file system without lasting ones what stands for it, made of size and time.
    public var inode: UInt64
    /// nil if only the inode was noted.
    public var bytes: Int64?
    /// Nanoseconds since 1970.
    public var modified: Int64?

    public init(inode: UInt64, bytes: Int64? = nil, modified: Int64? = nil) {
        (self.inode, self.bytes, self.modified) = (inode, bytes, modified)
    }
}

extension CompletedFile {
    public var identity: FinishedIdentity { FinishedIdentity(inode: inode, bytes: bytes, modified: modified) }
}
