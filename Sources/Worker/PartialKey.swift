import HaulBus
import HaulRedis

/// What names a job's partial files: two queues may share a root, and hold jobs of the same id.
enum PartialKey {
    static func of(_ id: String, in queue: QueueName) -> String { SHA1.hex("\(queue)\n\(id)") }
}
