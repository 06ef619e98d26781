import HaulContract
import Synchronization

/// The names that the files of one command have, so that no two of its downloads work for one name.
final class GetNames: Sendable {
    private struct Owner {
        /// The `GetItem.key`.
        let key: String
        let url: String
    }

    private let owners = Mutex<[String: Owner]>([:])

    /// Reserves a name for a download.
    ///
    /// - Throws: `file_exists` if another download of this command has reserved it.
    func reserve(_ path: String, for item: GetItem) throws(Failure) {
        let owner = owners.withLock { owners in
            let owner = owners["\(item.root)/\(path)", default: Owner(key: item.key, url: item.urls.first ?? "")]
            owners["\(item.root)/\(path)"] = owner
            return owner
        }
        guard owner.key != item.key else { return }
        let url = MaskedURL.keepingQuery(owner.url)
        throw Failure(
            .fileExists,
            "\(path) is the file of \(url) of this command: give each a name of its own, or choose --if-exists rename",
            isFinal: true)
    }

    /// Releases the names of a download that gives no file.
    func release(_ item: GetItem) {
        owners.withLock { owners in
            for (path, owner) in owners where owner.key == item.key { owners[path] = nil }
        }
    }
}
