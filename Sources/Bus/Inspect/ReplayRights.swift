package import HaulRedis

/// Whether a restart of Redis restores what the functions have written.
///
/// Redis appends each call of a function to its AOF as a transaction, and checks the transaction's commands again when
/// it replays them, as the user `default`. Redis 7.0 to 8.2, and others, drop what that user may not run, with no other
/// sign than lines in their log. So `default` needs all rights, even where it is off and no client can sign in as it.
package enum ReplayRights: Sendable, Equatable {
    /// The user `default` may run what the functions write, or Redis keeps no AOF.
    case sufficient
    /// The user `default` may not run this command.
    case lacking(String)
    /// Redis keeps an AOF, or may keep one, and this client has no right to ask about `default`.
    case unknown

    package static let advice =
        "change the line of that user in the ACL file to `user default off ~* &* +@all` before you restart Redis"
}

extension Queue {
    /// One command of each type of key, and one that applies to all types.
    private static let samples = [
        ["HSET", "field", "value"], ["LPUSH", "value"], ["ZADD", "1", "member"], ["SADD", "member"], ["SET", "value"],
        ["DEL"],
    ]

    /// Asks the server of this queue what its user `default` may do. The commands reveal nothing about passwords.
    package func replayRights() async throws(RedisError) -> ReplayRights {
        let dryRuns = Self.samples.map { sample in
            Command(arguments: ["ACL", "DRYRUN", "default", sample[0], keys.jobs] + sample.dropFirst())
        }
        let replies = try await redis.pipeline(
            [.command(Command("INFO", "persistence"))] + dryRuns.map { .command($0) }, timeout: .seconds(3))
        if (try? replies[0].get())?.infoFields["aof_enabled"] == "0" { return .sufficient }
        for (sample, reply) in zip(Self.samples, replies.dropFirst()) {
            switch reply {
            case .status: continue
            case .bulk: return .lacking(sample[0])
            default: return .unknown
            }
        }
        return .sufficient
    }
}
