import Glibc
package import Synchronization

/// How the command ends; scripts rely on the numbers.
package enum ExitStatus: Int32, Error {
    case done = 0
    case jobFailed = 1
    case usage = 2
    case redisUnreachable = 3
    case interrupted = 130

    /// Where the options that a sentence names come from, for its end. The program sets it if it takes options from elsewhere
    /// than its arguments.
    package static let optionSources = Mutex<@Sendable (String) -> String>({ _ in "" })

    package static func sources(of sentence: String) -> String { optionSources.withLock { $0 }(sentence) }

    package func leave() -> Never {
        exit(rawValue)
    }

    /// Says what is wrong and ends with this status.
    package static func because(_ status: ExitStatus, _ sentence: String) -> ExitStatus {
        Terminal.complain("haul: \(sentence)\(sources(of: sentence))")
        return status
    }
}
