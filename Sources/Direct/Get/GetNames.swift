import Synchronization

/// The names that the files of one command have, so that no two of its downloads work for one name.
final class GetNames: Sendable {
    private let owners = Mutex<[String: GetItem]>([:])

    /// Reserves a name for a download. The other download, if the name is reserved already.
    func reserve(_ path: String, for item: GetItem) -> GetItem? {
        owners.withLock { owners in
            let owner = owners["\(item.root)/\(path)", default: item]
            owners["\(item.root)/\(path)"] = owner
            return owner.key == item.key ? nil : owner
        }
    }

    /// Releases the names of a download that gives no file.
    func release(_ item: GetItem) {
        owners.withLock { owners in
            for (path, owner) in owners where owner.key == item.key { owners[path] = nil }
        }
    }
}
