import HaulBus
import HaulContract
import HaulRedis

/// What Redis has of a job.
struct Facts: Equatable {
    /// nil if the job is unknown, or only a tombstone that an operation has left.
    var state: JobState?
    var token: String?
    var worker: String?
    var want: String?
    /// Whether a push is kept behind an operation that the run has not received.
    var isKept = false
    /// Whether the kept push is a job, and not a continuation.
    var isKeptPushAJob = false
    var wantNext: String?
    var error: String?
    var crashes = 0
    var attempt = 0
    var deadline: Int64?
    var due: Int64?
    /// Whether a checkpoint of the job is kept.
    var hasOffsets = false
    /// The hash's remaining time to live, by Redis' own clock.
    var timeToLive: Duration?

    init() {}

    /// A command that reads the facts of jobs at one point in time. It then moves the expiry of their keys into the far
    /// future, because Redis' own clock goes faster than the simulation's on a slow machine.
    static func reading(_ ids: [String], of queue: Queue) -> Command {
        Command(arguments: ["EVAL", script, 1, queue.keys.prefix] + ids)
    }

    private static let script = """
        local facts = {}
        for n, id in ipairs(ARGV) do
          local key = KEYS[1] .. 'job:' .. id
          local fields = redis.call(
            'HMGET', key, 'state', 'token', 'worker', 'want', 'error', 'crashes', 'attempt', 'deadline_at',
            'next_push', 'want_next')
          fields[11] = redis.call('ZSCORE', KEYS[1] .. 'scheduled', id)
          fields[12] = redis.call('PTTL', key)
          fields[13] = redis.call('HGET', KEYS[1] .. 'spec:' .. id, 'next_push_has_url')
          fields[14] = redis.call('EXISTS', KEYS[1] .. 'offsets:' .. id)
          for _, kind in ipairs { 'job:', 'spec:', 'offsets:' } do
            redis.call('PEXPIREAT', KEYS[1] .. kind .. id, 9999999999999, 'GT')
          end
          facts[n] = fields
        end
        return facts
        """

    init(_ reply: RedisValue) {
        let fields = reply.array?.map(\.string) ?? []
        guard fields.count == 14 else { return }
        state = fields[0].flatMap(JobState.init)
        (token, worker, want, error) = (fields[1], fields[2], fields[3], fields[4])
        crashes = fields[5].flatMap { Int($0) } ?? 0
        attempt = fields[6].flatMap { Int($0) } ?? 0
        deadline = fields[7].flatMap { Int64($0) }
        isKept = fields[8] != nil
        wantNext = fields[9].map { String($0.prefix { $0 != " " }) }
        due = fields[10].flatMap { Int64($0) }
        hasOffsets = reply.array?[13].int == 1
        isKeptPushAJob = isKept && fields[12] != nil
        if let left = fields[11].flatMap({ Int($0) }), left >= 0 { timeToLive = .milliseconds(left) }
    }
}

extension Facts {
    /// Whether this operation waits, or is a pause that has stopped the job.
    func shows(_ operation: ControlOperation) -> Bool {
        want == operation.rawValue || operation == .paused && state == .paused
    }
}

extension Facts: CustomStringConvertible {
    var description: String {
        (state?.rawValue ?? "unknown") + (state == .failed ? error.map { " as \($0)" } ?? "" : "")
            + (token.map { " under \($0.prefix(4))" } ?? "")
            + (want.map { ", to be \($0)" } ?? "")
            + (isKept ? ", with a push behind it" : "") + (wantNext.map { ", then \($0)" } ?? "")
    }
}

extension Duration {
    var inMilliseconds: Int64 { Int64(milliseconds) }
}
