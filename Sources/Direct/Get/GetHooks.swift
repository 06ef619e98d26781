import Glibc
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
    func run(_ result: GetResult, _ event: String, _ reporter: GetReporter) async {
        let command: String?
        let option: String
        switch result.end {
        case .completed: (command, option) = (onComplete, "--on-complete")
        case .failed: (command, option) = (onError, "--on-error")
        case .unchanged, .skipped, .stopped: return
        }
        guard let command else { return }
        let status = await pool.run { Self.run(command, event + "\n") }
        guard status != 0 else { return }
        failures.withLock { $0 += 1 }
        reporter.printError("haul: \(option) \(command): it ended with status \(status)")
    }

    /// Returns the exit status; 128 and the number of the signal that ended it.
    private static func run(_ command: String, _ input: String) -> Int32 {
        var ends: [Int32] = [-1, -1]
        guard pipe(&ends) == 0 else { return 126 }
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_adddup2(&actions, ends[0], STDIN_FILENO)
        // Standard output may be JSON for a program.
        posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO)
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        // This process ignores failed writes, and a shell would inherit that.
        var signals = sigset_t()
        sigemptyset(&signals)
        sigaddset(&signals, SIGPIPE)
        posix_spawnattr_setsigdefault(&attributes, &signals)
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGDEF))
        let words: [String] = ["/bin/sh", "-c", command]
        var arguments: [UnsafeMutablePointer<CChar>?] = words.map { strdup($0) } + [nil]
        defer { for argument in arguments { free(argument) } }
        var process: pid_t = 0
        let code = posix_spawn(&process, "/bin/sh", &actions, &attributes, &arguments, environ)
        close(ends[0])
        if code == 0 { _ = input.withCString { write(ends[1], $0, strlen($0)) } }
        close(ends[1])
        guard code == 0 else { return 127 }
        var status: Int32 = 0
        while waitpid(process, &status, 0) < 0, errno == EINTR {}
        return status & 0x7F == 0 ? status >> 8 & 0xFF : 128 + status & 0x7F
    }
}
