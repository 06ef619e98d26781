import Dispatch
import Glibc
import HaulTerminal
import Synchronization

/// The terminal as a full screen: it reads keys in raw mode and draws rows. However the process ends, the terminal is
/// restored, except after SIGKILL.
final class FullScreen: Sendable {
    enum Input: Sendable {
        case bytes([UInt8])
        case resized, suspended, continued
        /// A signal that ends the command, or the terminal has been closed.
        case ended
    }

    /// State of the signal handlers, which must not allocate or lock.
    private nonisolated(unsafe) static var original = termios()
    private nonisolated(unsafe) static var isRaw: Int32 = 0
    private nonisolated(unsafe) static var signalPipe: (read: Int32, write: Int32) = (-1, -1)
    /// Resets the style, wraps lines, shows the cursor, leaves the alternate screen.
    private static let leaveSequence: StaticString = "\u{1B}[0m\u{1B}[?7h\u{1B}[?25h\u{1B}[?1049l"
    private static let enterSequence = "\u{1B}[?1049h\u{1B}[?25l\u{1B}[?7l\u{1B}[2J"

    private let isColored: Bool
    private let shown = Mutex<(rows: [ScreenRow], width: Int)>(([], 0))

    init() { isColored = Environment.text("NO_COLOR") == nil }

    /// Takes over the terminal. Returns its keys and the signals.
    func open() -> AsyncStream<Input> {
        Self.prepare()
        enter()
        return AsyncStream { continuation in
            // A thread of its own, because it blocks: it only waits for keys and signals.
            DispatchQueue(label: "haul.keys").async { Self.listen(continuation) }
        }
    }

    func enter() {
        // SIGCONT may reach a process that was not stopped. Then the terminal is still raw, and `original` stays.
        if Self.isRaw == 0 { tcgetattr(STDIN_FILENO, &Self.original) }
        var raw = Self.original
        cfmakeraw(&raw)
        // Ctrl-C and Ctrl-Z now arrive as keys. Output is still processed, so that a newline also returns the cursor.
        raw.c_oflag |= tcflag_t(OPOST)
        Self.isRaw = 1
        tcsetattr(STDIN_FILENO, TCSADRAIN, &raw)
        Terminal.write(Self.enterSequence)
        shown.withLock { $0 = ([], 0) }
    }

    func leave() { Self.restore() }

    /// Stops this process as Ctrl-Z in a shell does. When it goes on, the input is `.continued`.
    func suspend() {
        leave()
        signal(SIGTSTP, SIG_DFL)
        kill(getpid(), SIGTSTP)
    }

    /// Takes over the terminal again, after `.continued`.
    func resume() {
        Self.catchSignal(SIGTSTP)
        enter()
    }

    /// Draws the rows that have changed since the last call.
    func draw(_ rows: [ScreenRow], width: Int) {
        let output = shown.withLock { shown in
            defer { shown = (rows, width) }
            let isNew = shown.width != width || shown.rows.count != rows.count
            var output = isNew ? "\u{1B}[2J" : ""
            for (index, row) in rows.enumerated() where isNew || shown.rows[index] != row {
                output += "\u{1B}[\(index + 1);1H\(row.encoded(isColored: isColored))"
            }
            return output
        }
        if !output.isEmpty { Terminal.write(output) }
    }

    /// Makes the next `draw` draw all rows.
    func forget() { shown.withLock { $0 = ([], 0) } }

    // MARK: Signals

    private static func prepare() {
        var ends: [Int32] = [0, 0]
        pipe(&ends)
        for end in ends {
            _ = fcntl(end, F_SETFD, FD_CLOEXEC)
            _ = fcntl(end, F_SETFL, O_NONBLOCK)
        }
        signalPipe = (ends[0], ends[1])
        for number in [SIGWINCH, SIGTSTP, SIGCONT, SIGTERM, SIGINT, SIGHUP] { catchSignal(number) }
        for number in [SIGSEGV, SIGBUS, SIGILL, SIGTRAP, SIGABRT, SIGFPE] {
            signal(number) { number in
                FullScreen.restore()
                signal(number, SIG_DFL)
                raise(number)
            }
        }
        atexit { FullScreen.restore() }
        ExitStatus.restoration.withLock { $0 = { FullScreen.restore() } }
    }

    /// The handler writes the signal's number into a pipe, which the thread of `listen` reads.
    private static func catchSignal(_ number: Int32) {
        signal(number) { number in
            var byte = UInt8(truncatingIfNeeded: number)
            let before = errno
            _ = Glibc.write(FullScreen.signalPipe.write, &byte, 1)
            errno = before
        }
    }

    /// Restores the terminal, unless that is done already. Safe in a signal handler.
    private static func restore() {
        guard isRaw == 1 else { return }
        isRaw = 0
        leaveSequence.withUTF8Buffer { _ = Glibc.write(STDOUT_FILENO, $0.baseAddress, $0.count) }
        tcsetattr(STDIN_FILENO, TCSANOW, &original)
    }

    private static func listen(_ output: AsyncStream<Input>.Continuation) {
        var bytes = [UInt8](repeating: 0, count: 4096)
        while true {
            var sources = [
                pollfd(fd: STDIN_FILENO, events: Int16(POLLIN), revents: 0),
                pollfd(fd: signalPipe.read, events: Int16(POLLIN), revents: 0),
            ]
            guard poll(&sources, 2, -1) >= 0 || errno == EINTR else { break }
            if sources[1].revents != 0 {
                let count = read(signalPipe.read, &bytes, bytes.count)
                for byte in bytes.prefix(max(0, count)) { output.yield(input(of: Int32(byte))) }
            }
            if sources[0].revents != 0 {
                let count = read(STDIN_FILENO, &bytes, bytes.count)
                if count == 0 || count < 0 && errno != EINTR && errno != EAGAIN { break }
                if count > 0 { output.yield(.bytes(Array(bytes.prefix(count)))) }
            }
        }
        output.yield(.ended)
        output.finish()
    }

    private static func input(of number: Int32) -> Input {
        switch number {
        case SIGWINCH: .resized
        case SIGTSTP: .suspended
        case SIGCONT: .continued
        default: .ended
        }
    }
}
