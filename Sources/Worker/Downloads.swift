import HaulActivities
import HaulBus
import HaulContract
import HaulHTTP
import HaulStorage
import Synchronization

/// What all activities of this worker share. Some of it may change while the worker runs.
final class Downloads: Sendable {
    private struct State {
        var context: ActivityContext
        /// The configuration in effect.
        var configuration: WorkerConfiguration
    }

    let engine: TransferEngine
    let hosts: HostLimits
    private let state: Mutex<State>

    init(_ configuration: WorkerConfiguration, into store: any DurableStore, from buckets: (any SourceBuckets)?) {
        var settings = TransferEngine.Configuration()
        settings.policy = configuration.addressPolicy
        settings.proxy = configuration.proxy
        settings.userAgent = "Haul/\(Version.text)"
        settings.certificateAuthorities = configuration.certificateAuthorities
        settings.clientCertificate = configuration.clientCertificate
        engine = TransferEngine(configuration: settings)
        hosts = HostLimits(maxPerHost: configuration.connectionsPerHost)
        var context = ActivityContext(
            store: store, engine: engine, hosts: hosts, connections: configuration.connections,
            connectTimeout: configuration.connectTimeout, stallTimeout: configuration.stallTimeout)
        context.limit = configuration.limitRate.map { TokenBucket(bytesPerSecond: $0) }
        context.maxFileSize = configuration.maxFileSize
        context.speedWindow = configuration.speedWindow
        context.webhookKeys = (try? Self.webhookKeys(configuration)) ?? [:]
        context.gate = configuration.gateSettings.map(Gate.init)
        context.buckets = buckets
        state = Mutex(State(context: context, configuration: configuration))
    }

    private func context(_ files: QueueFiles) -> ActivityContext {
        var context = state.withLock { $0.context }
        (context.store, context.sources) = (files.store, files.sources)
        return context
    }

    /// The table of activities for these kinds, or for all kinds (nil), with the files of a queue.
    ///
    /// - Parameter other: Replaces the activities of these kinds.
    func activities(of kinds: [Job.Kind]?, with files: QueueFiles, _ other: [Job.Kind: Activities.Maker]) -> Activities
    {
        let known: [Job.Kind: Activities.Maker] = [
            .download: { Download($0, $1, context: self.context(files)) },
            .request: { Call($0, $1, context: self.context(files)) },
            .upload: { Upload($0, $1, context: self.context(files)) },
        ]
        return Activities(known.merging(other) { $1 }.filter { kinds?.contains($0.key) ?? true })
    }

    /// Applies the settings that may change, and reads the certificates and secrets again.
    ///
    /// - Throws: `Failure` for the operator, if the certificates cannot be used. Then nothing has changed.
    /// - Returns: The options that were applied, and those that have changed but need a new process.
    func apply(_ new: WorkerConfiguration) async throws(Failure) -> (applied: [String], ignored: [String]) {
        try Self.checkCertificates(new)
        let keys = try Self.webhookKeys(new)
        hosts.setMax(new.connectionsPerHost)
        let (old, limit, hasNewKeys) = state.withLock { state in
            let hasNewKeys = state.context.webhookKeys != keys
            state.context.connections = new.connections
            state.context.maxFileSize = new.maxFileSize
            state.context.webhookKeys = keys
            if state.context.gate?.settings != new.gateSettings {
                state.context.gate = new.gateSettings.map(Gate.init)
            }
            let limit = state.context.limit
            if limit == nil || new.limitRate == nil {
                state.context.limit = new.limitRate.map { TokenBucket(bytesPerSecond: $0) }
            }
            defer { state.configuration = state.configuration.applying(new) }
            return (state.configuration, limit, hasNewKeys)
        }
        // Downloads that run keep their bucket, so that the new rate holds for them, too.
        if let rate = new.limitRate { limit?.setRate(bytesPerSecond: rate) }
        await engine.trust(new.certificateAuthorities, showing: new.clientCertificate)
        var applied = old.changes(to: old.applying(new))
        // A secret is replaced in its file, and the option stays the same.
        if hasNewKeys, !applied.contains("webhook-secret") { applied.append("webhook-secret") }
        return (applied, old.applying(new).changes(to: new))
    }

    /// Logs a warning for each bucket that jobs may read, but for which there are no credentials.
    func checkSources() async { await state.withLock { $0.context.buckets }?.check() }

    /// - Throws: `Failure` for the operator, if the authorities, the client certificate or the proxy cannot be used.
    static func check(_ configuration: WorkerConfiguration) throws(Failure) {
        try checkCertificates(configuration)
        _ = try webhookKeys(configuration)
        if let proxy = configuration.proxy { try TransferEngine.check(proxy: proxy) }
    }

    /// Reads the secrets of webhooks.
    ///
    /// - Throws: `Failure` for the operator, if a file cannot be used.
    private static func webhookKeys(_ configuration: WorkerConfiguration) throws(Failure) -> [String: WebhookKeys] {
        var result: [String: WebhookKeys] = [:]
        for (name, file) in configuration.webhookSecrets {
            result[name] = try WebhookKeys(file: file)
        }
        return result
    }

    private static func checkCertificates(_ configuration: WorkerConfiguration) throws(Failure) {
        if let file = configuration.certificateAuthorities { try CertificateStore.check(file) }
        try configuration.clientCertificate?.check()
    }
}
