import Glibc
import HaulRedis

/// How the command ends; scripts rely on the numbers.
enum ExitStatus: Int32, Error {
    case done = 0
    case jobFailed = 1
    case usage = 2
    case redisUnreachable = 3
    case interrupted = 130

    func leave() -> Never {
        exit(rawValue)
    }

    /// Says what is wrong and ends with this status.
    static func because(_ status: ExitStatus, _ sentence: String) -> ExitStatus {
        Terminal.complain("haul: \(sentence)\(Settings.sources(of: sentence))")
        return status
    }

    /// Every error of Redis ends with 3, and one sentence.
    static func because(_ error: RedisError) -> ExitStatus {
        because(error.code == .badURL ? .usage : .redisUnreachable, error.message)
    }
}
