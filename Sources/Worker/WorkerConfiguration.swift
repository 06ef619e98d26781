package import HaulBus
package import HaulContract
package import HaulFileStore
package import HaulHTTP
package import HaulObjectStore
package import HaulRedis

/// How a worker works. Durations and sizes have their defaults here and nowhere else.
package struct WorkerConfiguration: Sendable {
    package var redis: RedisURL
    /// In order of priority; with a weight on any, drawn by weight.
    package var queues: [(name: QueueName, weight: Int?)] = [(.default, nil)]
    /// The directory that downloads go to, unless they go to a bucket.
    package var root: String
    /// The bucket that downloads go to.
    package var bucket: BucketAddress?
    /// For parts that are on their way to a bucket: bytes.
    package var storeMemory = ObjectStore.memory
    /// The kinds of jobs that it does; nil: all that it knows.
    package var kinds: [Job.Kind]?
    /// nil: as many as there are jobs.
    package var slots: Int? = 3
    /// Unique in the fleet.
    package var name: String
    package var durability: Durability = .disk
    /// The permissions of finished files; nil: 0666 less the umask.
    package var fileMode: UInt32?
    /// Finished files get the time that the server says they were modified at.
    package var keepsRemoteTime = false
    package var addressPolicy = AddressPolicy.restricted()
    package var policy = QueuePolicy()
    /// After SIGTERM everything is back in line within this.
    package var graceTime: Duration = .seconds(10)
    /// That a job is completed is told when so many replicas of Redis have it.
    package var settleReplicas = 0
    /// Bytes per second over all transfers.
    package var limitRate: Int64?
    package var proxy: String?
    package var certificateAuthorities: String?
    package var clientCertificate: ClientCertificate?
    package var maximumSize: Int64?
    /// Bytes of the disk that downloads leave free.
    package var keptFree = Stores.keptFree
    /// The most connections for one file, unless its job says otherwise.
    package var connections = 16
    /// The most connections to one host, over all downloads.
    package var connectionsPerHost = 16
    package var connectTimeout: Duration = .seconds(15)
    package var stallTimeout: Duration = .seconds(60)

    /// Each step of each job is a line of the log.
    package var logsJobs = true

    /// Its page tells of its queues as well, as the whole fleet serves them.
    package var exportsQueues = false

    package init(redis: RedisURL, root: String, name: String) {
        (self.redis, self.root, self.name) = (redis, root, name)
    }

    package init(redis: RedisURL, bucket: BucketAddress, name: String) {
        self.init(redis: redis, root: "", name: name)
        self.bucket = bucket
    }
}
