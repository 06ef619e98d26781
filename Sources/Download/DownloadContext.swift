package import HaulContract
package import HaulHTTP

/// What all downloads of a worker share.
package struct DownloadContext: Sendable {
    package let store: Store
    package let engine: TransferEngine
    package let commits: GroupCommit
    package var durability: Durability = .disk
    package var attributes = FileAttributes()
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

    package init(store: Store, engine: TransferEngine) {
        (self.store, self.engine) = (store, engine)
        commits = GroupCommit(store, engine.path.blocking)
    }
}

/// What a download tells while it runs.
package enum DownloadEvent: Sendable {
    case started(total: Int64?, resumable: Bool)
    case resumed(offset: Int64, total: Int64?)
    case restarted(why: String)
    case warning(String)
}

/// How a download ended. The partial file is still there, but after `completed`.
package enum DownloadOutcome: Sendable {
    case completed(CompletedFile, seconds: Double, unchanged: Bool)
    case failed(Failure)
    /// No room on the disk.
    case parked(String)
    /// The task was cancelled.
    case stopped
    /// The lease is lost: another worker has the job.
    case fenced
}

/// How far a download is.
package struct DownloadProgress: Sendable {
    package var received: Int64 = 0
    package var total: Int64?
    /// Bytes per second over the last 5 s.
    package var speed: Int64 = 0
    /// Bytes per second over this attempt, without what was there before it.
    package var average: Int64 = 0
    package var connections = 0

    /// Seconds that are left at this speed; nil if that cannot be told.
    package var eta: Int64? {
        guard let total, speed > 0 else { return nil }
        return max(0, total - received) / speed
    }
}
