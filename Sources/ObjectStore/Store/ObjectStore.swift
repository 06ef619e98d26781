import Glibc
package import HaulContract
import HaulExecutors
import HaulHTTP
import HaulStorage
import Synchronization

/// A bucket of an object store as the location for downloads. Workers that share nothing else can share it.
///
/// docs/guides/buckets.md describes its layout, and what it needs from the server.
package final class ObjectStore: Sendable {
    /// What the operator can choose.
    package struct Options: Sendable {
        /// Bytes of memory for all parts that are being filled or uploaded.
        package var memory = ObjectStore.memory
        /// A PEM file of certificate authorities that are trusted in addition to the system's.
        package var certificateAuthorities: String?
        /// Called with messages for the operator.
        package var notify: @Sendable (String) -> Void = { _ in }
        package init() {}
    }

    /// The default of `Options.memory`, in bytes.
    package static let memory = 256 << 20
    /// The maximum bytes that S3 allows in an object.
    static let maxObjectSize: Int64 = 5 << 40
    /// Bytes of one file that a kill may cost at most, if a part is not larger than `limitForFile`.
    static let maxUnacknowledged = 64 << 20
    /// Bytes of one file that its parts may have in memory. The rest of `maxUnacknowledged` is for the receive buffers
    /// of its connections, which are full while they wait for this memory.
    static let limitForFile = 60 << 20
    /// Instead of a hidden name: there is no hidden object.
    static let nothingHidden = "-"

    package let id: String
    let client: BucketClient
    let memory: PartMemory
    /// Threads for digests.
    let threads = BlockingPool(name: "parts", limit: 2)
    private let chores = Mutex<[Task<Void, Never>]>([])
    private let unknownConditions = Mutex<Set<ConditionalRequest>>([])

    /// - Parameters:
    ///   - environment: The value of an environment variable. It may say where credentials are.
    ///   - isReadable: Whether a readable file is at a path.
    package convenience init(
        _ address: BucketAddress, options: Options = Options(), environment: (String) -> String?,
        isReadable: (String) -> Bool
    ) {
        // The operator chose this endpoint, so every address is allowed. Jobs use another engine, with its own policy.
        var configuration = TransferEngine.Configuration()
        configuration.policy = .unrestricted
        configuration.certificateAuthorities = options.certificateAuthorities
        let engine = TransferEngine(configuration: configuration)
        let chain = CredentialsChain(
            engine: engine, locations: CredentialsLocation.all(environment, isReadable: isReadable))
        self.init(
            BucketClient(address, engine: engine, credentials: chain, notify: options.notify),
            PartMemory(limit: options.memory, limitForFile: min(Self.limitForFile, options.memory)))
    }

    private init(_ client: BucketClient, _ memory: PartMemory) {
        (self.client, self.memory) = (client, memory)
        let address = client.address
        let location = "\(address.endpoint ?? "amazonaws.com")\n\(address.bucket)\n\(address.prefix)"
        id = Hexadecimal.text(Digest.md5(location.utf8))
    }

    /// Another bucket or prefix of the same server, with the connections, the credentials and the memory of this one.
    ///
    /// - Parameter text: `s3://BUCKET` or `s3://BUCKET/PREFIX`.
    /// - Throws: `bad_job`, with a sentence that says what is wrong.
    package func other(_ text: String) throws(Failure) -> ObjectStore {
        let mine = client.address
        let address = try BucketAddress(
            text, endpoint: mine.endpoint, region: mine.region, isPathStyle: mine.isPathStyle)
        return ObjectStore(
            BucketClient(address, engine: client.engine, credentials: client.credentials, notify: client.notify),
            memory)
    }

    /// Takes the environment and the files of this process.
    package convenience init(_ address: BucketAddress, options: Options) {
        self.init(
            address, options: options, environment: { name in getenv(name).map { String(cString: $0) } },
            isReadable: { access($0, R_OK) == 0 })
    }

    /// Bytes of memory that parts use now.

    /// Whether the server knows the condition of a request: true until it responds that it does not.
    func knows(_ request: ConditionalRequest) -> Bool { unknownConditions.withLock { !$0.contains(request) } }

    /// Records that the server does not know a condition, which later requests then omit.
    func lacks(_ request: ConditionalRequest) {
        guard unknownConditions.withLock({ $0.insert(request).inserted }) else { return }
        client.notify(
            "the store \(client.address) does not know \(request.rawValue), so requests omit it from now on: "
                + "haul store check says what that means")
    }

    /// Runs `work` in the background.
    func deferWork(_ work: @escaping @Sendable () async -> Void) {
        let task = Task { await work() }
        chores.withLock { $0.append(task) }
    }

    /// Runs `work` in the background, and does not wait for it.
    func inBackground(_ work: @escaping @Sendable () async -> Void) { Task { await work() } }

    /// Waits for the background work that was begun before.
    func finishBackgroundWork() async {
        let tasks = chores.withLock { tasks in
            defer { tasks = [] }
            return tasks
        }
        for task in tasks { await task.value }
    }
}
