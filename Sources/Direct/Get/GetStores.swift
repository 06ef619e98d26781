import HaulContract
import HaulExecutors
import HaulFileStore
import HaulHTTP
import HaulObjectStore
import HaulStorage
import Synchronization

/// The stores of the directories and buckets that files go to. A store is opened when it is first needed.
final class GetStores: Sendable {
    private let options: FileStore.Options
    /// Where buckets are; nil if the command has no options for buckets.
    private let bucket: BucketOptions?
    private let certificates: String?
    private let known = Mutex<[String: any DurableStore]>([:])
    private let diskWriter = DiskWriter()
    private let pool = BlockingPool(name: "stores", limit: 1)

    init(_ transfer: TransferOptions, _ bucket: BucketOptions?, certificates: String?) {
        var options = FileStore.Options()
        options.durability = transfer.durability
        options.attributes.keepsRemoteTime = transfer.remoteTime
        // Keep no reserve: a user at a terminal may fill the disk.
        options.minFree = 0
        (self.options, self.bucket, self.certificates) = (options, bucket, certificates)
    }

    /// - Throws: `ExitStatus.usage` if one of these roots is an invalid bucket; the reason has been printed.
    func check(_ roots: Set<String>) throws {
        for root in roots where GetTarget.isBucket(root) { _ = try bucket?.address(of: root) }
    }

    func store(_ root: String) async throws(Failure) -> any DurableStore {
        if let store = known.withLock({ $0[root] }) { return store }
        // The pool has one thread, so no store is opened twice.
        return try await pool.run { () throws(Failure) in
            if let store = self.known.withLock({ $0[root] }) { return store }
            let store: any DurableStore = GetTarget.isBucket(root) ? try self.object(root) : try self.directory(root)
            self.known.withLock { $0[root] = store }
            return store
        }
    }

    /// Closes the store of a directory that is removed.
    func forget(_ root: String) { known.withLock { $0[root] = nil } }

    private func directory(_ root: String) throws(Failure) -> FileStore {
        var options = options
        // Only this user's download log contains the id, so it need not be kept in a file in the directory.
        options.id = "get:" + Job.Checksum.Algorithm.sha1.hexadecimal(of: root)
        do throws(Failure) { return try FileStore(root: root, options: options, diskWriter: diskWriter) } catch {
            // The user has named a directory, and need not know the word root.
            throw Failure(error.code, error.message.replacing("the root ", with: ""), isFinal: true)
        }
    }

    private func object(_ root: String) throws(Failure) -> ObjectStore {
        var options = ObjectStore.Options()
        options.certificateAuthorities = certificates
        guard let address = try? bucket?.address(of: root) else {
            throw Failure(.badJob, "\(root) names no bucket", isFinal: true)
        }
        return ObjectStore(address, options: options)
    }

    /// Does the work that the stores have put off.
    func runDeferredWork() async { for store in known.withLock({ Array($0.values) }) { await store.runDeferredWork() } }
}
