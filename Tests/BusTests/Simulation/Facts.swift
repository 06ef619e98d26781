import Bus
import Contract
import Redis

/// What Redis says of a job.
struct Facts: Equatable {
    /// nil: unknown, or a stub that a request left.
    var state: JobState?
    var token: String?
    var worker: String?
    var want: String?
    var error: String?
    var crashes = 0
    var deadline: Int64?
    var due: Int64?
    /// What is left of the hash's time to live, by Redis' own clock.
    var timeToLive: Duration?

    init() {}

    static func calls(_ id: String, _ keys: Keys) -> [Call] {
        [
            .command(
                Command("HMGET", keys.job(id), "state", "token", "worker", "want", "error", "crashes", "deadline_at")),
            .command(Command("ZSCORE", keys.scheduled, id)), .command(Command("PTTL", keys.job(id))),
        ]
    }

    init(_ replies: ArraySlice<RedisValue>) {
        let replies = Array(replies)
        let fields = replies[0].array?.map(\.string) ?? []
        guard fields.count == 7 else { return }
        state = fields[0].flatMap(JobState.init)
        (token, worker, want, error) = (fields[1], fields[2], fields[3], fields[4])
        crashes = fields[5].flatMap { Int($0) } ?? 0
        deadline = fields[6].flatMap { Int64($0) }
        due = replies[1].int.map(Int64.init)
        if let left = replies[2].int, left >= 0 { timeToLive = .milliseconds(left) }
    }
}

extension Facts: CustomStringConvertible {
    var description: String {
        (state?.rawValue ?? "unknown") + (token.map { " under \($0.prefix(4))" } ?? "")
            + (want.map { ", to be \($0)" } ?? "")
    }
}

extension ByteIntervals {
    /// The byte after the last one.
    var end: Int64 { intervals.last?.upperBound ?? 0 }
}

extension Duration {
    var inMilliseconds: Int64 { Int64(milliseconds) }
}
