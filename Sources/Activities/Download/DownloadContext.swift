package import HaulHTTP
package import HaulStorage

/// What all downloads of a worker share.
package struct DownloadContext: Sendable {
    package let store: any Store
    package let engine: TransferEngine
    package var connectTimeout: Duration = .seconds(15)
    package var stallTimeout: Duration = .seconds(60)
    /// The seconds over which a job's least speed is judged.
    package var speedWindow = 30.0
    /// The most connections for one file, unless the job says otherwise.
    package var connections = 4
    package var hosts = HostLimits(most: 8)
    /// Over all transfers of the worker.
    package var limit: TokenBucket?
    /// Larger files are refused.
    package var maximumSize: Int64?

    package init(store: any Store, engine: TransferEngine) { (self.store, self.engine) = (store, engine) }
}
