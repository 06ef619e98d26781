package import HaulContract

extension FinishedIdentity {
    /// As Lua/drop.lua tells it: an inode, and unless an earlier version noted it, a size and a time.
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

/// A finished file that is to be deleted, and has not been by the time its job runs again.
package struct DoomedFile: Sendable, Equatable {
    package let store: String
    /// Relative to the root.
    package let file: String
    package let identity: FinishedIdentity

    /// As Lua/drop.lua has noted it in the job's hash.
    init?(_ text: String) {
        guard let texts = try? JSON(text).array?.compactMap(\.string), texts.count == 3,
            let identity = FinishedIdentity(texts[2])
        else { return nil }
        (store, file, self.identity) = (texts[0], texts[1], identity)
    }
}
