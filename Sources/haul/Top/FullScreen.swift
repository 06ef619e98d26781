import Dispatch
import Glibc
import HaulTerminal
import Synchronization

/// The terminal as a screen: raw keys in, rows out. Whatever ends the process, the terminal is put back as it was before, but for
/// SIGKILL, which nobody hears.
final class FullScreen: Sendable {
    enum Input: Sendable {
        case bytes([UInt8])
        case resized, suspended, continued
        /// A signal that ends the command, or the end of the terminal.
        case ended
    }

    /// What the signals' handlers need: they may use nothing that allocates or locks.
    private nonisolated(unsafe) static var original = termios()
    private nonisolated(unsafe) static var isRaw: Int32 = 0
    private nonisolated(unsafe) static var signalPipe: (read: Int32, write: Int32) = (-1, -1)
    /// Shows the cursor, wraps lines, leaves the alternate screen.
    private static let farewell: StaticString = "\u{1B}[0m\u{1B}[?7h\u{1B}[?25h\u{1B}[?1049l"
    private static let greeting = "\u{1B}[?1049h\u{1B}[?25l\u{1B}[?7l\u{1B}[2J"

    private let isColored: Bool
    private let shown = Mutex<(rows: [ScreenRow], width: Int)>(([], 0))

    init() { isColored = Environment.text("NO_COLOR") == nil }

    /// Takes the terminal over, and tells what comes from it.
    func open() -> AsyncStream<Input> {
        Self.prepare()
        enter()
        return AsyncStream { continuation in
            // A thread of its own: it waits for keys and signals, and for nothing else.
            DispatchQueue(label: "haul.keys").async { Self.listen(continuation) }
        }
    }

    func enter() {
        // A process may be told to go on that was not stopped. Then the terminal is as this process has made it.
        if Self.isRaw == 0 { tcgetattr(STDIN_FILENO, &Self.original) }
        var raw = Self.original
        cfmakeraw(&raw)
        // Signals by keys come as keys; lines are ended as always.
        raw.c_oflag |= tcflag_t(OPOST)
        Self.isRaw = 1
        tcsetattr(STDIN_FILENO, TCSADRAIN, &raw)
        Terminal.write(Self.greeting)
        shown.withLock { $0 = ([], 0) }
    }

    func leave() { Self.restore() }

    /// Stops this process as the shell's Ctrl-Z does; `.continued` comes when it goes on.
    func suspend() {
        leave()
        signal(SIGTSTP, SIG_DFL)
        kill(getpid(), SIGTSTP)
    }

    /// After a stop.
    func resume() {
        Self.catchSignal(SIGTSTP)
        enter()
    }

    /// Draws what has changed since the last time.
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

    /// The next drawing is of everything.
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
    }

    /// A signal is a byte in a pipe, which the thread of the keys reads.
    private static func catchSignal(_ number: Int32) {
        signal(number) { number in
            var byte = UInt8(truncatingIfNeeded: number)
            let before = errno
            _ = Glibc.write(FullScreen.signalPipe.write, &byte, 1)
            errno = before
        }
    }

    /// Puts the terminal back, once; safe in a signal's handler.
    private static func restore() {
        guard isRaw == 1 else { return }
        isRaw = 0
        farewell.withUTF8Buffer { _ = Glibc.write(STDOUT_FILENO, $0.baseAddress, $0.count) }
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
