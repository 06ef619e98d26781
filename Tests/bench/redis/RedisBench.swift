import Glibc
import HaulRedis

/// Commands per second through one `Redis` client. Each of the callers sends its next command as soon as it has a
/// reply.
///
///     redis-bench URL get|set CALLERS COUNT
@main
struct RedisBench {
    static func main() async throws {
        let arguments = CommandLine.arguments
        guard arguments.count == 5, let callers = Int(arguments[3]), let count = Int(arguments[4]) else {
            print("usage: redis-bench URL get|set CALLERS COUNT")
            exit(2)
        }
        let redis = Redis(try RedisURL(arguments[1]), name: "bench")
        // As redis-benchmark does: one key, three bytes.
        let command = arguments[2] == "get" ? Command("GET", "key:bench") : Command("SET", "key:bench", "xxx")
        try await redis.send(Command("SET", "key:bench", "xxx"))
        let start = ContinuousClock.now
        let cpu = cpuSeconds()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<callers {
                group.addTask {
                    for _ in 0..<(count / callers) { try await redis.send(command, timeout: .seconds(60)) }
                }
            }
            try await group.waitForAll()
        }
        let (seconds, attoseconds) = (ContinuousClock.now - start).components
        let elapsed = Double(seconds) + Double(attoseconds) / 1e18
        let done = count / callers * callers
        print(Int(Double(done) / elapsed), Int((cpuSeconds() - cpu) / Double(done) * 1e9))
    }

    static func cpuSeconds() -> Double {
        var usage = rusage()
        getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage)
        return Double(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec)
            + Double(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6
    }
}
