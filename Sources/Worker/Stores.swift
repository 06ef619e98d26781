import HaulContract
import HaulFileStore
import HaulObjectStore
import HaulStorage
import Logging

/// The only place of a worker that opens stores: a new kind of store is added here and to the options of the command.
enum Stores {
    /// Bytes of the disk that downloads leave free, unless the operator says otherwise.
    static let keptFree = FileStore.Options().keptFree

    /// Opens the store that the configuration names.
    ///
    /// - Throws: `Failure` with a sentence for the operator.
    static func open(_ configuration: WorkerConfiguration, _ log: Logger) throws(Failure) -> any Store {
        if let bucket = configuration.bucket { return open(bucket, configuration, log) }
        var options = FileStore.Options()
        options.keptFree = configuration.keptFree
        options.durability = configuration.durability
        options.attributes.mode = configuration.fileMode
        options.attributes.keepsRemoteTime = configuration.keepsRemoteTime
        return try FileStore(root: configuration.root, options: options)
    }

    private static func open(
        _ bucket: BucketAddress, _ configuration: WorkerConfiguration, _ log: Logger
    ) -> any Store {
        var options = ObjectStore.Options()
        options.memory = configuration.storeMemory
        options.certificateAuthorities = configuration.certificateAuthorities
        options.notify = { log.warning("\($0)", metadata: ["root": "\(bucket)"]) }
        return ObjectStore(bucket, options: options)
    }

    /// Opens the folder from which jobs may send files; nil if they may send none.
    ///
    /// - Parameter store: The store that `open` has opened.
    /// - Throws: `Failure` with a sentence for the operator.
    static func sources(
        _ configuration: WorkerConfiguration, beside store: any Store
    ) throws(Failure) -> (any SourceFolder)? {
        guard let folder = configuration.uploadFrom else { return nil }
        let isBucket = folder.hasPrefix(BucketAddress.scheme)
        guard let bucket = store as? ObjectStore else {
            guard !isBucket else {
                throw Failure(.badJob, "--upload-from must be a directory with --root, not \"\(folder)\"")
            }
            return try SourceDirectory(folder)
        }
        guard isBucket else {
            throw Failure(.badJob, "--upload-from must be s3://BUCKET/PREFIX with --store, not \"\(folder)\"")
        }
        return try bucket.other(folder)
    }

    /// Opens a directory that workers have used before.
    ///
    /// - Throws: `Failure` if it is not such a directory.
    static func known(root: String) throws(Failure) -> any Store { try FileStore(known: root) }

    /// Logs what an operator should know about the store.
    static func logNotes(of store: any Store, _ log: Logger) {
        guard let store = store as? FileStore else { return }
        let root: Logger.Metadata = ["root": "\(store.root)"]
        switch store.naming {
        case .link, nil: break
        case .exclusiveRename:
            log.info("the root has no hard links: finished files get their names by exclusive renames", metadata: root)
        case .lockedRename:
            log.warning(
                """
                the root has neither hard links nor exclusive renames: workers take turns with a lock, and another program's \
                file that appears at the same time as a finished one of its name may be replaced
                """, metadata: root)
        }
    }
}
