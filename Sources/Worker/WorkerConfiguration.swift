import HaulActivities
package import HaulBus
package import HaulContract
package import HaulFileStore
package import HaulHTTP
package import HaulObjectStore
package import HaulRedis

/// The settings of a worker, with their defaults. Some of these come from the types that use them.
package struct WorkerConfiguration: Sendable {
    package var redis: RedisURL
    /// In order of priority, or if any has a weight, drawn by weight.
    package var queues = [ServedQueue(.default)]
    /// The directory that downloads go to, unless they go to a bucket.
    package var root: String
    /// The bucket that downloads go to.
    package var bucket: BucketAddress?
    /// The directory, or with a bucket the `s3://BUCKET/PREFIX`, beneath which jobs may send files; nil: they may send
    /// none.
    package var uploadFrom: String?
    /// The buckets whose objects jobs may download.
    package var sources: [BucketSource] = []
    /// Bytes of memory for parts that are on their way to a bucket.
    package var storeMemory = ObjectStore.memory
    /// The kinds of jobs that the worker does; nil: all.
    package var kinds: [Job.Kind]?
    /// nil: unlimited.
    package var slots: Int? = 3
    /// Unique in the fleet.
    package var name: String
    package var durability: Durability = .disk
    /// The permissions of finished files; nil: 0666 less the umask.
    package var fileMode: UInt32?
    /// Finished files get the server's Last-Modified as their time.
    package var keepsRemoteTime = false
    /// No job may replace a file that is not its own.
    package var forbidsOverwrite = false
    package var addressPolicy = AddressPolicy.restricted()
    package var policy = QueuePolicy()
    /// After SIGTERM all jobs are settled or back in the queue within this time.
    package var graceTime: Duration = .seconds(10)
    /// The completion of a job is announced when this many replicas of Redis have it.
    package var settleReplicas = 0
    /// Bytes per second over all transfers.
    package var limitRate: Int64?
    package var proxy: String?
    /// A file of certificate authorities to trust besides the system's.
    package var certificateAuthorities: String?
    package var clientCertificate: ClientCertificate?
    /// Files with the secrets of webhooks, by the names of the secrets.
    package var webhookSecrets: [String: String] = [:]
    /// The maximum size of a file, in bytes.
    package var maxFileSize: Int64?
    /// The seconds over which `min_speed` is measured. No option sets it.
    package var speedWindow = 30.0
    /// A command of the shell that sees each downloaded file before it gets its name; nil: files are not examined.
    package var gate: String?
    /// Commands of the gate at once.
    package var gateLimit = 4
    package var gateTimeout: Duration = .seconds(300)
    /// `Gate.Settings.retryAfter`. No option sets it.
    package var gateRetryAfter: Duration = .seconds(30)
    /// Bytes of the disk that downloads leave free.
    package var minFree = Stores.minFree
    /// The maximum number of connections for one file, unless its job says otherwise.
    package var connections = 16
    /// The maximum number of connections to one host, over all downloads.
    package var connectionsPerHost = 16
    package var connectTimeout: Duration = .seconds(15)
    package var stallTimeout: Duration = .seconds(60)

    /// Each step of each job is a line of the log.
    package var logsJobs = true

    /// The page also has the metrics of the worker's queues, as the whole fleet serves them.
    package var exportsQueues = false

    package init(redis: RedisURL, root: String, name: String) {
        (self.redis, self.root, self.name) = (redis, root, name)
    }

    package init(redis: RedisURL, bucket: BucketAddress, name: String) {
        self.init(redis: redis, root: "", name: name)
        self.bucket = bucket
    }
}

extension WorkerConfiguration {
    var gateSettings: Gate.Settings? {
        gate.map { command in
            var settings = Gate.Settings(command: command)
            (settings.limit, settings.timeout) = (gateLimit, gateTimeout)
            settings.retryAfter = gateRetryAfter
            return settings
        }
    }
}

/// A queue that a worker serves.
package struct ServedQueue: Sendable {
    package let name: QueueName
    package let weight: Int?
    /// The folder of the root, or of the bucket's prefix, beneath which all files of the queue's jobs are; "" for all of
    /// the root. It has no "/" at its end.
    package let folder: String

    package init(_ name: QueueName, weight: Int? = nil, folder: String = "") {
        (self.name, self.weight, self.folder) = (name, weight, folder)
    }

    /// Its partitions, or the queue itself. The worker serves each as it serves any queue.
    var parts: [ServedQueue] {
        name.partitions.isEmpty ? [self] : name.partitions.map { ServedQueue($0, weight: weight, folder: folder) }
    }
}
