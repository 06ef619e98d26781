package import HaulHTTP
package import HaulStorage

/// What all downloads of a worker share. It has no defaults of its own: `WorkerConfiguration` has them.
package struct DownloadContext: Sendable {
    package let store: any Store
    package let engine: TransferEngine
    /// The most connections to a host, over all downloads.
    package var hosts: HostLimits
    /// The most connections for one file, unless the job says otherwise.
    package var connections: Int
    /// Unless the job says otherwise.
    package var connectTimeout: Duration
    /// Unless the job says otherwise.
    package var stallTimeout: Duration
    /// The seconds over which a job's least speed is measured.
    package var speedWindow = 30.0
    /// Over all transfers of the worker; nil for none.
    package var limit: TokenBucket?
    /// Larger files are refused: bytes.
    package var maximumSize: Int64?

    package init(
        store: any Store, engine: TransferEngine, hosts: HostLimits, connections: Int, connectTimeout: Duration,
        stallTimeout: Duration
    ) {
        (self.store, self.engine, self.hosts, self.connections) = (store, engine, hosts, connections)
        (self.connectTimeout, self.stallTimeout) = (connectTimeout, stallTimeout)
    }
}
