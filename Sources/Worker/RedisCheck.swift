import HaulBus
import HaulRedis
import Logging

/// Warns at the start of a worker about settings with which Redis may lose jobs.
///
/// They are read from `INFO`, because `CONFIG GET` would also reveal passwords.
enum RedisCheck {
    static func warn(_ queue: Queue, _ log: Logger) async {
        guard let info = try? await queue.redis.send(Command("INFO"), timeout: .seconds(3)).infoFields else {
            return log.info("Redis' settings cannot be read: so it is unknown whether it keeps jobs safe")
        }
        if info["aof_enabled"] == "0" {
            log.warning(
                "appendonly is off: jobs pushed since the last snapshot are lost when Redis restarts; set appendonly yes"
            )
        }
        if let policy = info["maxmemory_policy"], policy != "noeviction", info["maxmemory"] != "0" {
            log.warning("maxmemory-policy is \(policy): a full Redis may evict jobs; set it to noeviction")
        }
        switch try? await queue.replayRights() {
        case .lacking(let command):
            log.warning(
                """
                a restart of Redis may lose what workers have written: it replays its AOF as the user default, which \
                may not run \(command); \(ReplayRights.advice)
                """)
        case .unknown:
            log.warning(
                """
                whether a restart of Redis keeps what workers have written is not checked, because this user may not \
                run ACL DRYRUN: load the ACL file of this version of Haul
                """)
        case .sufficient, nil: break
        }
    }
}
