import HaulExecutors
import HaulTerminal
import Synchronization

/// The commands of `--on-complete` and `--on-error`.
final class GetHooks: Sendable {
    private let onComplete: String?
    private let onError: String?
    /// Commands may take long, so they have threads of their own. A few at once keep a computer usable.
    private let pool = BlockingPool(name: "hooks", limit: 4)
    private let failures = Mutex(0)

    init(onComplete: String?, onError: String?) { (self.onComplete, self.onError) = (onComplete, onError) }

    /// Whether a command has failed.
    var hasFailed: Bool { failures.withLock { $0 > 0 } }

    /// Runs the command for the result, and returns when it has ended.
    ///
    /// - Parameter event: The event as a line of JSON, which the command gets on its standard input.
    func run(_ result: GetResult, _ event: String, _ reporter: TransferReporter) async {
        let command: String?
        let option: String
        switch result.end {
        case .completed: (command, option) = (onComplete, "--on-complete")
        case .failed: (command, option) = (onError, "--on-error")
        case .unchanged, .skipped, .metalink, .stopped: return
        }
        guard let command else { return }
        let status = await pool.run { Self.run(command, event + "\n") }
        guard status != 0 else { return }
        failures.withLock { $0 += 1 }
        reporter.printError("haul: \(option) \(command): it ended with status \(status)")
    }

    /// Returns the exit status; 128 and the number of the signal that ended it.
    private static func run(_ command: String, _ input: String) -> Int32 {
        guard let command = try? ShellCommand(command) else { return 127 }
        _ = command.write(Array(input.utf8))
        command.closeInput()
        guard case .exited(let status) = command.wait() else { return 127 }
        return status
    }
}
