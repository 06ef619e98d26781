package import HaulContract

extension FinishedIdentity {
    /// Reads an identity that Lua/core/deletions.lua wrote: an inode, a size (bytes) and a time (ns). Earlier versions
    /// wrote the inode only.
    package init?(_ text: String) {
        let parts = text.split(separator: " ")
        guard let inode = parts.first.flatMap({ UInt64($0) }) else { return nil }
        guard parts.count == 3, let bytes = Int64(parts[1]), let modified = Int64(parts[2]) else {
            self.init(inode: inode)
            return
        }
        self.init(inode: inode, bytes: bytes, modified: modified)
    }
}

/// A finished file that was to be deleted, and still was not when its job was claimed again.
package struct PendingDeletion: Sendable, Equatable {
    package let store: String
    /// Relative to the root.
    package let file: String
    package let identity: FinishedIdentity

    /// Reads the field `pending_deletion` of a job's hash, which Lua/core/deletions.lua writes.
    init?(_ text: String) {
        guard let texts = try? JSON(text).array?.compactMap(\.string), texts.count == 3,
            let identity = FinishedIdentity(texts[2])
        else { return nil }
        (store, file, self.identity) = (texts[0], texts[1], identity)
    }
}
