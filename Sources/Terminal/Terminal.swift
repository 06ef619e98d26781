import Glibc
package import Synchronization

/// Standard output and error.
package enum Terminal {
    /// Standard output is a terminal that understands escape sequences.
    package static var isInteractive: Bool {
        isatty(STDOUT_FILENO) == 1 && getenv("TERM").map { String(cString: $0) } != "dumb"
    }

    /// Whether standard output shows colours: it is a terminal, and NO_COLOR (https://no-color.org) is not set.
    package static var isColored: Bool { isInteractive && Environment.text("NO_COLOR") == nil }

    /// Standard error is a terminal that understands escape sequences.
    package static var isErrorInteractive: Bool {
        isatty(STDERR_FILENO) == 1 && getenv("TERM").map { String(cString: $0) } != "dumb"
    }

    /// The columns that a list may use; nil if standard output is not a terminal: then lines may be of any width.
    package static var width: Int? { isatty(STDOUT_FILENO) == 1 ? size.width : nil }

    /// Columns and rows; 80 and 24 if the terminal does not say.
    package static var size: (width: Int, height: Int) {
        var size = winsize()
        for descriptor in [STDOUT_FILENO, STDERR_FILENO] {
            guard ioctl(descriptor, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0, size.ws_row > 0 else { continue }
            return (Int(size.ws_col), Int(size.ws_row))
        }
        return (80, 24)
    }

    /// Opens /dev/null on each of the descriptors 0 to 2 that the parent process left closed. Otherwise the next file
    /// or socket would get that number, and messages would be written into it.
    package static func occupyClosedDescriptors() {
        for number in STDIN_FILENO...STDERR_FILENO where fcntl(number, F_GETFD) < 0 {
            // Standard input is opened for writing only and standard output for reading only, so that whoever uses them
            // gets the same error as from a closed descriptor.
            _ = open("/dev/null", number == STDOUT_FILENO ? O_RDONLY : O_WRONLY)
        }
    }

    /// The value of an option that names a file to write, with "-" for standard output by another name. If a file is
    /// behind that, opening the name would begin to write at its first byte, over what the command has written.
    @Sendable package static func outputPath(_ path: String) -> String {
        ["/dev/stdout", "/dev/fd/\(STDOUT_FILENO)", "/proc/self/fd/\(STDOUT_FILENO)"].contains(path) ? "-" : path
    }

    /// The command prints events as they happen. If the reader goes away before the end, the command counts as failed.
    package static let isFollowing = Atomic(false)

    /// Writes to standard output without a buffer. It ends the command if there is no reader any more (EPIPE), without
    /// a message, or with status 1 and a message on any other error.
    package static func write(_ text: String) { write(Array(text.utf8)) }

    /// Writes bytes to standard output in the same way.
    package static func write(_ bytes: [UInt8]) {
        var bytes = bytes[...]
        while !bytes.isEmpty {
            let count = bytes.withUnsafeBytes { Glibc.write(STDOUT_FILENO, $0.baseAddress!, $0.count) }
            if count >= 0 {
                bytes = bytes.dropFirst(count)
                continue
            }
            switch errno {
            case EINTR: continue
            case EAGAIN:
                // A full pipe that another process has made non-blocking.
                var output = pollfd(fd: STDOUT_FILENO, events: Int16(POLLOUT), revents: 0)
                poll(&output, 1, -1)
            case EPIPE: (isFollowing.load(ordering: .relaxed) ? ExitStatus.jobFailed : .done).exitProcess()
            case let code:
                printError("haul: standard output cannot be written: \(String(cString: strerror(code)))")
                ExitStatus.jobFailed.exitProcess()
            }
        }
    }

    package static func line(_ text: String) { write(text + "\n") }

    /// Writes a line to standard error, or several. They may quote lists, servers and producers, so nothing in them
    /// controls the terminal.
    package static func printError(_ text: String) {
        let lines = text.split(separator: "\n", omittingEmptySubsequences: false)
        prompt(lines.map { String($0).printable + "\n" }.joined())
    }

    /// Writes to standard error, without a newline.
    package static func prompt(_ line: String) {
        _ = line.withCString { Glibc.write(STDERR_FILENO, $0, strlen($0)) }
    }
}
