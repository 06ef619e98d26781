import HaulBus
import HaulRedis

/// The key in the names of a job's partial files. Queues may share a root and have jobs of the same id, so it has both.
enum PartialKey {
    static func of(_ id: String, in queue: QueueName) -> String { SHA1.hex("\(queue)\n\(id)") }
}
