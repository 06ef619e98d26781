import HaulRedis

/// How far the replicas of a server are. INFO reports it. WAIT would block everything behind it on the connection.
package struct Replication: Sendable, Equatable {
    /// The id of the server's run.
    package let run: String
    /// The end of the server's replication stream, in bytes.
    package let offset: Int64
    /// Up to which offset the most advanced replica has confirmed; nil if none has.
    package let acknowledged: Int64?

    /// nil if this is not the INFO of a primary.
    init?(_ info: [String: Substring]) {
        guard info["role"] == "master", let run = info["run_id"],
            let offset = info["master_repl_offset"].flatMap({ Int64($0) })
        else { return nil }
        (self.run, self.offset) = (String(run), offset)
        acknowledged =
            info.compactMap { name, value -> Int64? in
                // slave0:ip=10.0.0.6,port=6379,state=online,offset=1234,lag=0
                guard name.hasPrefix("slave"), value.contains("state=online") else { return nil }
                let words = value.split(separator: ",").first { $0.hasPrefix("offset=") }
                return words.flatMap { Int64($0.dropFirst("offset=".count)) }
            }.filter { $0 > 0 }.max()
    }
}

extension Queue {
    /// nil if the server does not answer within a second.
    package func replication() async -> Replication? {
        let reply = try? await redis.send(Command("INFO", "server", "replication"), timeout: .seconds(1))
        return reply.flatMap { Replication($0.infoFields) }
    }
}
