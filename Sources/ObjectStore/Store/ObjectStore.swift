import Glibc
import HaulContract
import HaulExecutors
import HaulHTTP
import HaulStorage
import Synchronization

/// A bucket of an object store as the place that downloads go to: workers share it that share nothing else.
///
/// docs/object-stores.md says what is where in it, and what it takes for granted.
package final class ObjectStore: Sendable {
    /// What the operator wants of it.
    package struct Options: Sendable {
        /// Of all parts that are on their way: bytes.
        package var memory = ObjectStore.memory
        /// A PEM file of certificate authorities that are trusted besides the system's.
        package var certificateAuthorities: String?
        /// Told what an operator should know.
        package var tell: @Sendable (String) -> Void = { _ in }
        package init() {}
    }

    /// The memory of parts, unless the operator says otherwise: bytes.
    package static let memory = 256 << 20
    /// An object has no more bytes.
    static let largest: Int64 = 5 << 40
    /// The bytes of one file that are on their way: what a kill may cost.
    private static let share = 64 << 20
    /// In the place of a hidden name: nothing hidden was made.
    static let nothingHidden = "-"

    package let id: String
    let client: BucketClient
    let memory: PartMemory
    /// For digests.
    let threads = BlockingPool(name: "parts", limit: 2)
    private let chores = Mutex<[Task<Void, Never>]>([])
    private let knowsConditions = Mutex(true)

    /// - Parameters:
    ///   - environment: Of the process, which may say where credentials are.
    ///   - isThere: Whether a file is there.
    package init(
        _ address: BucketAddress, options: Options = Options(), environment: (String) -> String?,
        isThere: (String) -> Bool
    ) {
        // It is the operator's own: what jobs may reach is another engine's matter.
        var configuration = TransferEngine.Configuration()
        configuration.policy = .unrestricted
        configuration.certificateAuthorities = options.certificateAuthorities
        let engine = TransferEngine(configuration: configuration)
        let chain = CredentialsChain(engine: engine, places: CredentialsPlace.all(environment, isThere: isThere))
        client = BucketClient(address, engine: engine, credentials: chain, tell: options.tell)
        memory = PartMemory(limit: options.memory, share: min(Self.share, options.memory))
        let place = "\(address.endpoint ?? "amazonaws.com")\n\(address.bucket)\n\(address.prefix)"
        id = Digest.md5(place.utf8).hexadecimal
    }

    /// The same with the environment and the files of this process.
    package convenience init(_ address: BucketAddress, options: Options) {
        self.init(
            address, options: options, environment: { name in getenv(name).map { String(cString: $0) } },
            isThere: { access($0, R_OK) == 0 })
    }

    /// Memory of parts: bytes.
    package var memoryInUse: Int { memory.used }

    /// The server takes If-None-Match.
    var hasConditions: Bool { knowsConditions.withLock { $0 } }
    func lacksConditions() { knowsConditions.withLock { $0 = false } }

    /// Does it without being waited for.
    func later(_ work: @escaping @Sendable () async -> Void) {
        let task = Task { await work() }
        chores.withLock { $0.append(task) }
    }

    /// Waits for what is done without being waited for.
    func chore() async {
        let tasks = chores.withLock { tasks in
            defer { tasks = [] }
            return tasks
        }
        for task in tasks { await task.value }
    }
}
