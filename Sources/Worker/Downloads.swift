import HaulActivities
import HaulBus
import HaulContract
import HaulHTTP
import HaulStorage
import Synchronization

/// What the downloads and requests of this worker share, and go by from now on: it may change while the worker works.
final class Downloads: Sendable {
    private struct State {
        var context: DownloadContext
        /// As it was taken last.
        var configuration: WorkerConfiguration
    }

    let engine: TransferEngine
    let hosts: HostLimits
    private let state: Mutex<State>

    init(_ configuration: WorkerConfiguration, into store: any Store) {
        var settings = TransferEngine.Configuration()
        settings.policy = configuration.addressPolicy
        settings.proxy = configuration.proxy
        settings.userAgent = "Haul/\(Version.text)"
        settings.certificateAuthorities = configuration.certificateAuthorities
        settings.clientCertificate = configuration.clientCertificate
        engine = TransferEngine(configuration: settings)
        hosts = HostLimits(most: configuration.connectionsPerHost)
        var context = DownloadContext(
            store: store, engine: engine, hosts: hosts, connections: configuration.connections,
            connectTimeout: configuration.connectTimeout, stallTimeout: configuration.stallTimeout)
        context.limit = configuration.limitRate.map { TokenBucket(bytesPerSecond: $0) }
        context.maximumSize = configuration.maximumSize
        state = Mutex(State(context: context, configuration: configuration))
    }

    var context: DownloadContext { state.withLock { $0.context } }

    /// What does the jobs of these kinds, or of all: the table from a job's kind to its activity.
    func activities(of kinds: [Job.Kind]?) -> Activities {
        let all: [Job.Kind: Activities.Maker] = [
            .download: { Download($0, context: self.context) },
            .request: { Call($0, context: self.context) },
            .upload: { Upload($0, context: self.context) },
        ]
        // A store whose files cannot be sent leaves uploads to others.
        let givesFiles = context.store.givesFiles
        return Activities(all.filter { kinds?.contains($0.key) ?? ($0.key != .upload || givesFiles) })
    }

    /// Takes what may change, and reads certificates anew. Throws a sentence if these cannot be used, with nothing taken. Returns the
    /// names of what was taken, and of what else has changed, which only another process can take.
    func take(_ new: WorkerConfiguration) async throws(Failure) -> (taken: [String], left: [String]) {
        try Self.checkCertificates(new)
        hosts.setMost(new.connectionsPerHost)
        let old = state.withLock { state in
            state.context.connections = new.connections
            state.context.maximumSize = new.maximumSize
            if let limit = state.context.limit, let rate = new.limitRate {
                limit.setRate(bytesPerSecond: rate)
            } else {
                state.context.limit = new.limitRate.map { TokenBucket(bytesPerSecond: $0) }
            }
            defer { state.configuration = state.configuration.taking(new) }
            return state.configuration
        }
        await engine.trust(new.certificateAuthorities, showing: new.clientCertificate)
        return (old.changes(to: old.taking(new)), old.taking(new).changes(to: new))
    }

    /// Throws if the operator's authorities, certificate or proxy cannot be used.
    static func check(_ configuration: WorkerConfiguration) throws(Failure) {
        try checkCertificates(configuration)
        if let proxy = configuration.proxy { try TransferEngine.check(proxy: proxy) }
    }

    private static func checkCertificates(_ configuration: WorkerConfiguration) throws(Failure) {
        if let file = configuration.certificateAuthorities { try CertificateStore.check(file) }
        try configuration.clientCertificate?.check()
    }
}
