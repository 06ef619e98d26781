import HaulActivities
import HaulContract
import HaulHTTP
import HaulStorage
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

    /// Reserves the name that the file of a download gets, unless it may get a number.
    ///
    /// - Parameter name: The file's name by the server, for a download without a name of its own.
    /// - Returns: The file's path.
    func reserve(offered name: String, for item: GetItem) throws(TransferError) -> String {
        let path = item.hasName ? item.job.path! : (item.job.path ?? "") + name
        if item.ifExists != .rename {
            do throws(Failure) { try reserve(path, for: item) } catch { throw .failed(error) }
        }
        return path
    }

    /// Releases the names of a download that gives no file.
    func release(_ item: GetItem) {
        owners.withLock { owners in
            for (path, owner) in owners where owner.key == item.key { owners[path] = nil }
        }
    }
}

/// Reserves the name of a file in a bucket, so that no two downloads of one command replace each other's object. The
/// store handles an object that has the name already.
struct BucketName: ExistingFile {
    let item: GetItem
    let names: GetNames
    let store: any Store

    /// Whether the bucket has an object of this name.
    static func exists(_ path: String?, in store: any Store) async throws(TransferError) -> Bool {
        guard let path, let objects = store as? any SourceFolder else { return false }
        do throws(TransferError) {
            _ = try await objects.source(path)
            return true
        } catch {
            guard case .failed(let failure) = error, failure.code == .sourceMissing else { throw error }
            return false
        }
    }

    var modifiedSince: String? { nil }
    var isCompared: Bool { false }

    func completedFile(for offer: Offer) async throws(TransferError) -> CompletedFile? {
        let path = try names.reserve(offered: offer.name, for: item)
        // The store would replace an object that this download has made.
        if item.isSkippable, try await Self.exists(path, in: store) {
            throw TransferError(.fileExists, "\(path) exists")
        }
        return nil
    }

    func checkReplacement(by partial: any Partial, of entity: Entity) async throws(TransferError) {}
}
