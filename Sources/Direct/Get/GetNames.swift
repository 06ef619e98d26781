import Synchronization

/// The names that the files of one command have, so that no two of its downloads work for one name.
final class GetNames: Sendable {
    private struct Owner {
        /// The `GetItem.key`.
        let key: String
        let url: String
    }

    private let owners = Mutex<[String: Owner]>([:])

    /// Reserves a name for a download. The URL of the other download, if the name is reserved already.
    func reserve(_ path: String, for item: GetItem) -> String? {
        owners.withLock { owners in
            let owner = owners["\(item.root)/\(path)", default: Owner(key: item.key, url: item.urls.first ?? "")]
            owners["\(item.root)/\(path)"] = owner
            return owner.key == item.key ? nil : owner.url
        }
    }

    /// Releases the names of a download that gives no file.
    func release(_ item: GetItem) {
        owners.withLock { owners in
            for (path, owner) in owners where owner.key == item.key { owners[path] = nil }
        }
    }
}
