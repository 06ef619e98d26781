import HaulContract
import HaulFileStore
import HaulObjectStore
import HaulStorage
import Logging

/// The files that the jobs of a queue may reach.
struct QueueFiles: Sendable {
    /// Where downloads go.
    let store: any DurableStore
    /// Where uploads are read from; nil if no job may send files.
    let sources: (any SourceFolder)?
}

/// The only place of a worker that opens stores: a new kind of store is added here and to the options of the command.
enum Stores {
    /// Bytes of the disk that downloads leave free, unless the operator says otherwise.
    static let minFree = FileStore.Options().minFree

    /// Opens the files of each queue that the configuration names, in the order of the queues and their
    /// partitions. Those with the same folder share a store.
    ///
    /// - Throws: `Failure` with a sentence for the operator.
    static func open(_ configuration: WorkerConfiguration, _ log: Logger) throws(Failure) -> [QueueFiles] {
        let bucket = configuration.bucket.map { open($0, configuration, log) }
        let diskWriter = DiskWriter()
        var known: [String: QueueFiles] = [:]
        var files: [QueueFiles] = []
        for folder in configuration.queues.flatMap(\.parts).map(\.folder) {
            let next: QueueFiles
            if let same = known[folder] {
                next = same
            } else if let bucket {
                next = QueueFiles(
                    store: folder.isEmpty ? bucket : try bucket.other("\(bucket.name)/\(folder)"),
                    sources: try sources(configuration, folder, beside: bucket))
            } else {
                next = QueueFiles(
                    store: try open(folder, configuration, diskWriter), sources: try sources(configuration, folder))
            }
            known[folder] = next
            files.append(next)
        }
        return files
    }

    private static func open(
        _ folder: String, _ configuration: WorkerConfiguration, _ diskWriter: DiskWriter
    ) throws(Failure) -> any DurableStore {
        var options = FileStore.Options()
        options.minFree = configuration.minFree
        options.durability = configuration.durability
        options.attributes.mode = configuration.fileMode
        options.attributes.keepsRemoteTime = configuration.keepsRemoteTime
        return try FileStore(root: configuration.root, folder: folder, options: options, diskWriter: diskWriter)
    }

    private static func open(
        _ bucket: BucketAddress, _ configuration: WorkerConfiguration, _ log: Logger
    ) -> ObjectStore {
        var options = ObjectStore.Options()
        options.memory = configuration.storeMemory
        options.certificateAuthorities = configuration.certificateAuthorities
        options.notify = { log.warning("\($0)", metadata: ["root": "\(bucket)"]) }
        return ObjectStore(bucket, options: options)
    }

    /// The buckets whose objects jobs may download; nil if there are none.
    static func buckets(_ configuration: WorkerConfiguration, _ log: Logger) -> (any SourceBuckets)? {
        guard !configuration.sources.isEmpty else { return nil }
        var options = ObjectStore.Options()
        options.certificateAuthorities = configuration.certificateAuthorities
        options.notify = { log.warning("\($0)") }
        return BucketSources(configuration.sources, options: options)
    }

    /// Opens the folder from which jobs may send files; nil if they may send none.
    ///
    /// - Parameter bucket: Where downloads go, unless they go to a directory.
    /// - Throws: `Failure` with a sentence for the operator.
    private static func sources(
        _ configuration: WorkerConfiguration, _ folder: String, beside bucket: ObjectStore? = nil
    ) throws(Failure) -> (any SourceFolder)? {
        guard let location = configuration.uploadFrom else { return nil }
        let isBucket = location.hasPrefix(BucketAddress.scheme)
        guard let bucket else {
            guard !isBucket else {
                throw Failure(.badJob, "--upload-from must be a directory with --root, not \"\(location)\"")
            }
            return try SourceDirectory(location, folder: folder)
        }
        guard isBucket else {
            throw Failure(.badJob, "--upload-from must be s3://BUCKET/PREFIX with --store, not \"\(location)\"")
        }
        return try bucket.other("\(location)/\(folder)")
    }

    /// Opens a directory that workers have used before.
    ///
    /// - Throws: `Failure` if it is not such a directory.
    static func known(root: String) throws(Failure) -> any DurableStore { try FileStore(known: root) }

    /// Logs what an operator should know about the store.
    static func logNotes(of store: any DurableStore, _ log: Logger) {
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

extension [any DurableStore] {
    /// Why the first of them that has a fault cannot be used; nil if none has one.
    func fault() async -> String? {
        for store in self { if let fault = await store.fault() { return fault } }
        return nil
    }
}
