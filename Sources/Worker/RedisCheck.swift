import HaulRedis
import Logging

/// Warns at the start about settings of Redis that may lose jobs. `INFO` has them, and needs no right to see passwords.
enum RedisCheck {
    static func warn(_ redis: Redis, _ log: Logger) async {
        guard let facts = try? await redis.send(Command("INFO"), timeout: .seconds(3)).facts else {
            return log.info("Redis' settings cannot be read: whether it keeps jobs safe is not checked")
        }
        if facts["aof_enabled"] == "0" {
            log.warning(
                "appendonly is off: jobs pushed since the last snapshot are lost when Redis restarts; set appendonly yes"
            )
        }
        if let policy = facts["maxmemory_policy"], policy != "noeviction", facts["maxmemory"] != "0" {
            log.warning("maxmemory-policy is \(policy): a full Redis may throw jobs away; set it to noeviction")
        }
    }
}
