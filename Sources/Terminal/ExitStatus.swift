import Glibc
package import Synchronization

/// The exit status of the command. Scripts rely on the numbers.
package enum ExitStatus: Int32, Error {
    case done = 0
    case jobFailed = 1
    case usage = 2
    case redisUnreachable = 3
    case interrupted = 130

    /// Returns a text to append to an error message: where the options that the message names were set. The program
    /// replaces this function if options can also come from the environment or a file.
    package static let optionSources = Mutex<@Sendable (String) -> String>({ _ in "" })

    package static func sources(of sentence: String) -> String { optionSources.withLock { $0 }(sentence) }

    /// Restores the terminal before the process ends; nil if nothing has changed it.
    package static let restoration = Mutex<(@Sendable () -> Void)?>(nil)

    /// Ends the process. exit(3) would first run the handlers of OpenSSL and libcurl, which free what threads of this
    /// process still use: then a command that had done its work could crash at its end.
    package func exitProcess() -> Never {
        Self.restoration.withLock(\.self)?()
        fflush(nil)
        _exit(rawValue)
    }

    /// Prints the sentence to standard error at once, and returns the status for the caller to throw.
    package static func printing(_ status: ExitStatus, _ sentence: String) -> ExitStatus {
        let whole = sentence + sources(of: sentence)
        let isCollected = collected.withLock { texts in
            texts?.append(whole)
            return texts != nil
        }
        if !isCollected { Terminal.printError("haul: \(whole)") }
        return status
    }

    /// The sentences that `printing` does not print now; nil while it prints them.
    private static let collected = Mutex<[String]?>(nil)

    /// Runs `body`, and returns the sentences of `printing` instead of printing them. One call at a time.
    package static func collecting<T>(_ body: () throws -> T) -> (result: Result<T, any Error>, sentences: [String]) {
        collected.withLock { $0 = [] }
        let result = Result { try body() }
        return (result, collected.withLock { $0.take() } ?? [])
    }
}
