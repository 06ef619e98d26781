import Logging
import Redis

/// What of a Redis' settings may lose jobs: said at start.
enum RedisCheck {
    static func warn(_ redis: Redis, _ log: Logger) async {
        guard let reply = try? await redis.send(Command("CONFIG", "GET", "*"), timeout: .seconds(3)) else {
            return log.info("Redis' settings cannot be read: whether it keeps jobs safe is not checked")
        }
        let settings = reply.dictionary
        if settings["appendonly"] == "no" {
            log.warning(
                "appendonly is off: jobs pushed since the last snapshot are lost when Redis restarts; set appendonly yes"
            )
        }
        if let policy = settings["maxmemory-policy"], policy != "noeviction", settings["maxmemory"] != "0" {
            log.warning("maxmemory-policy is \(policy): a full Redis may throw jobs away; set it to noeviction")
        }
    }
}
