import CHaulLinux
import Glibc
import Synchronization

/// A command of the operator or user, which the shell runs as a process of its own.
///
/// Starting, writing and waiting block, so they are for threads that may block. `stop` may be called on any thread.
package final class ShellCommand: Sendable {
    package enum End: Sendable, Equatable {
        /// The exit status; 128 and the number of the signal that ended the command.
        case exited(Int32)
        /// `stop` was called.
        case stopped
        /// The command took too long, and was killed.
        case timedOut
    }

    /// The command cannot be started. The value is an errno.
    package struct StartError: Error { package let systemError: Int32 }

    /// How much of the output is kept: bytes of its end.
    private static let keptOutput = 4096
    /// How long a command that is stopped may clean up before it is killed.
    private static let grace: UInt64 = 1_000_000_000

    /// The shell that runs a guarded command, its first argument. Descriptor 3 is the end of a connection to this
    /// process. When that ends, however it ends, the shell in the background kills the whole process group. The wait
    /// at the end reaps the shell in the background, so that no zombie is left.
    private static let guardian = """
        trap : TERM
        { read -r end; kill -KILL 0; } <&3 >/dev/null 2>&1 &
        /bin/sh -c "$1" 3<&-
        status=$?
        exec >/dev/null 2>&1
        kill -KILL $!
        wait
        exit $status
        """

    private struct Pipes {
        /// Where `write` writes; nil once it is closed, and if the command reads from a descriptor.
        var input: Int32?
        var lastOutput: [UInt8] = []
    }

    private let process: pid_t
    private let isGuarded: Bool
    /// The end of the connection to a guarded command that this process holds. It is at its end when the command is.
    private let lifeline: Int32
    private let output: Int32
    /// An eventfd that is readable once the command has ended or has been stopped. It is only polled, never read.
    private let ending: Int32
    private let pipes: Mutex<Pipes>
    private let isStopped = Atomic(false)

    /// Starts a command that writes to this process' standard error and belongs to its process group, so that Ctrl-C in
    /// a terminal reaches both. It reads what is given to `write`.
    package convenience init(_ text: String) throws(StartError) {
        try self.init(["/bin/sh", "-c", text], environment: nil, input: nil, isGuarded: false)
    }

    /// Starts a command that ends with this process, and whose output is kept for `lastOutput`.
    ///
    /// - Parameters:
    ///   - environment: All variables that it gets, as `NAME=value`.
    ///   - input: What it reads. nil: what is given to `write`.
    package convenience init(
        guarded text: String, environment: [String], input: Int32?
    ) throws(StartError) {
        try self.init(
            ["/bin/sh", "-c", Self.guardian, "sh", text], environment: environment, input: input, isGuarded: true)
    }

    private init(
        _ words: [String], environment: [String]?, input: Int32?, isGuarded: Bool
    ) throws(StartError) {
        var opened: [Int32] = []
        func failing(_ systemError: Int32) -> StartError {
            for descriptor in opened { close(descriptor) }
            return StartError(systemError: systemError)
        }
        /// The descriptors that the child gets must not be those that they are copied to.
        func open(_ make: (UnsafeMutablePointer<Int32>) -> Int32) throws(StartError) -> (Int32, Int32) {
            var ends: [Int32] = [-1, -1]
            guard make(&ends) == 0 else { throw failing(errno) }
            let moved = ends.map { fcntl($0, F_DUPFD_CLOEXEC, 10) }
            let code = errno
            for end in ends { close(end) }
            opened += moved.filter { $0 >= 0 }
            guard !moved.contains(-1) else { throw failing(code) }
            return (moved[0], moved[1])
        }
        let given = input == nil ? try open { pipe($0) } : nil
        let (outputEnd, childOutput) = isGuarded ? try open { pipe($0) } : (-1, -1)
        let (lifelineEnd, childLifeline) =
            isGuarded ? try open { socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, $0) } : (-1, -1)
        let event = eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK))
        guard event >= 0 else { throw failing(errno) }
        opened.append(event)
        for end in [given?.1, isGuarded ? outputEnd : nil].compactMap(\.self) { _ = fcntl(end, F_SETFL, O_NONBLOCK) }

        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_adddup2(&actions, input ?? given?.0 ?? -1, STDIN_FILENO)
        // Standard output of this process may be JSON for a program.
        posix_spawn_file_actions_adddup2(&actions, isGuarded ? childOutput : STDERR_FILENO, STDOUT_FILENO)
        if isGuarded {
            posix_spawn_file_actions_adddup2(&actions, childOutput, STDERR_FILENO)
            posix_spawn_file_actions_adddup2(&actions, childLifeline, 3)
        }
        clinux_close_from(&actions, isGuarded ? 4 : 3)
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        // This process ignores failed writes, and its threads block signals. A shell would inherit both.
        var signals = sigset_t()
        sigfillset(&signals)
        posix_spawnattr_setsigdefault(&attributes, &signals)
        sigemptyset(&signals)
        posix_spawnattr_setsigmask(&attributes, &signals)
        let group = isGuarded ? POSIX_SPAWN_SETPGROUP : 0
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | group))
        var arguments: [UnsafeMutablePointer<CChar>?] = words.map { strdup($0) } + [nil]
        var variables: [UnsafeMutablePointer<CChar>?] = (environment ?? []).map { strdup($0) } + [nil]
        defer { for text in arguments + variables { free(text) } }
        var child: pid_t = 0
        let code =
            environment == nil
            ? posix_spawn(&child, words[0], &actions, &attributes, &arguments, environ)
            : posix_spawn(&child, words[0], &actions, &attributes, &arguments, &variables)
        guard code == 0 else { throw failing(code) }
        for end in [given?.0, isGuarded ? childOutput : nil, isGuarded ? childLifeline : nil].compactMap(\.self) {
            close(end)
        }
        (process, self.isGuarded, lifeline, output, ending) = (child, isGuarded, lifelineEnd, outputEnd, event)
        pipes = Mutex(Pipes(input: given?.1))
    }

    deinit {
        for descriptor in [lifeline, output, ending, pipes.withLock { $0.input } ?? -1] where descriptor >= 0 {
            close(descriptor)
        }
    }

    /// The end of what the command has written. Complete after `wait`.
    package var lastOutput: [UInt8] { pipes.withLock { $0.lastOutput } }

    // MARK: Its input

    /// Writes all bytes to the command's standard input. False if it reads no more, or has ended. Only one thread may
    /// write at a time. Blocks.
    package func write(_ bytes: [UInt8]) -> Bool {
        guard let input = pipes.withLock({ $0.input }) else { return false }
        // A command may read no more. The thread keeps the signal blocked, since it never needs it.
        var signals = sigset_t()
        sigemptyset(&signals)
        sigaddset(&signals, SIGPIPE)
        pthread_sigmask(SIG_BLOCK, &signals, nil)
        return bytes.withUnsafeBytes { bytes in
            var count = 0
            while count < bytes.count {
                let written = Glibc.write(input, bytes.baseAddress! + count, bytes.count - count)
                if written >= 0 {
                    count += written
                    continue
                }
                if errno == EINTR { continue }
                guard errno == EAGAIN else { return false }
                var polled = [Self.polled(input, POLLOUT), Self.polled(ending, POLLIN)]
                poll(&polled, 2, -1)
                if polled[1].revents != 0 { return false }
            }
            return true
        }
    }

    /// The command finds the end of its input.
    package func closeInput() { if let input = pipes.withLock({ $0.input.take() }) { close(input) } }

    // MARK: Its end

    /// Ends the command: with SIGTERM, and a second later with SIGKILL. Only a guarded command can be stopped.
    package func stop() {
        isStopped.store(true, ordering: .releasing)
        markEnding()
    }

    /// Returns when the command has ended. Nothing that a guarded command has started in its process group outlives it.
    /// Blocks the calling thread.
    ///
    /// - Parameter limit: How long a guarded command may take.
    package func wait(within limit: Duration = .seconds(1 << 30)) -> End {
        defer { markEnding() }
        guard isGuarded else { return .exited(reap()) }
        var deadline = monotonicNanoseconds() + UInt64(max(0, limit / .nanoseconds(1)))
        var end: End?
        while !hasEnded {
            let now = monotonicNanoseconds()
            if end == nil, isStopped.load(ordering: .acquiring) || now >= deadline {
                end = isStopped.load(ordering: .acquiring) ? .stopped : .timedOut
                kill(-process, SIGTERM)
                deadline = now + Self.grace
            } else if now >= deadline {
                kill(-process, SIGKILL)
                deadline = .max
            }
            // A shell that something else has killed may not close the connection, so its end is looked for as well.
            var polled = [Self.polled(lifeline, POLLIN), Self.polled(output, POLLIN), Self.polled(ending, POLLIN)]
            poll(&polled, end == nil ? 3 : 2, Int32(min(500, (max(deadline, now) - now) / 1_000_000 + 1)))
            if polled[1].revents & Int16(POLLIN) != 0 {
                readOutput()
            } else if polled[0].revents != 0 || polled[1].revents != 0 {
                // The last process of the group is about to end.
                usleep(1000)
            }
        }
        readOutput()
        // Before the process is reaped, so that no other process group can have its number.
        kill(-process, SIGKILL)
        let status = reap()
        return end ?? .exited(status)
    }

    /// Whether the process has ended. It is not reaped yet.
    private var hasEnded: Bool {
        var info = siginfo_t()
        return waitid(P_PID, id_t(process), &info, WEXITED | WNOHANG | WNOWAIT) != 0 && errno != EINTR
            || info.si_signo == SIGCHLD
    }

    private func reap() -> Int32 {
        var status: Int32 = 0
        while waitpid(process, &status, 0) < 0, errno == EINTR {}
        return status & 0x7F == 0 ? status >> 8 & 0xFF : 128 + status & 0x7F
    }

    private func markEnding() { eventfd_write(ending, 1) }

    private func readOutput() {
        var bytes = [UInt8](repeating: 0, count: Self.keptOutput)
        // A command that writes without end must not keep its end from being seen.
        for _ in 0..<64 {
            let count = read(output, &bytes, bytes.count)
            guard count > 0 else { return }
            pipes.withLock { pipes in
                pipes.lastOutput += bytes.prefix(count)
                pipes.lastOutput.removeFirst(max(0, pipes.lastOutput.count - Self.keptOutput))
            }
        }
    }

    private static func polled(_ descriptor: Int32, _ events: Int32) -> pollfd {
        pollfd(fd: descriptor, events: Int16(events), revents: 0)
    }
}
