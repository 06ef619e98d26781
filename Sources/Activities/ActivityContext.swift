package import HaulHTTP
package import HaulStorage

/// What all transfers of a worker share. The defaults are in `WorkerConfiguration`.
package struct ActivityContext: Sendable {
    package var store: any Store
    /// The files that jobs may send; nil if the operator has allowed none.
    package var sources: (any SourceFolder)?
    /// The buckets whose objects jobs may download; nil if the operator has allowed none.
    package var buckets: (any SourceBuckets)?
    package let engine: TransferEngine
    /// Limits the connections to each host, over all transfers.
    package var hosts: HostLimits
    /// The maximum number of connections for one file, unless the job sets it.
    package var connections: Int
    /// Used unless the job sets one.
    package var connectTimeout: Duration
    /// Used unless the job sets one.
    package var stallTimeout: Duration
    /// The seconds over which `min_speed` is measured.
    package var speedWindow = 30.0
    /// The rate limit over all transfers of the worker; nil for none.
    package var limit: TokenBucket?
    /// The maximum size of a file, in bytes.
    package var maxFileSize: Int64?
    /// The secrets with which webhooks are signed, by name.
    package var webhookKeys: [String: WebhookKeys] = [:]
    /// Takes the bodies of responses to requests and uploads; nil keeps them in memory.
    package var receiver: (any ResponseReceiver)?
    package var authentication = Authentication.atOnce
    /// Sees each file before it gets its name; nil if the operator has set none.
    package var gate: Gate?

    package init(
        store: any Store, engine: TransferEngine, hosts: HostLimits, connections: Int, connectTimeout: Duration,
        stallTimeout: Duration
    ) {
        (self.store, self.engine, self.hosts, self.connections) = (store, engine, hosts, connections)
        (self.connectTimeout, self.stallTimeout) = (connectTimeout, stallTimeout)
    }
}
