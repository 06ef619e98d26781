import Glibc
package import Synchronization

/// Standard output and error.
package enum Terminal {
    package static var isInteractive: Bool {
        isatty(STDOUT_FILENO) == 1 && getenv("TERM").map { String(cString: $0) } != "dumb"
    }

    /// How wide a list may be: as wide as its lines, where nobody looks.
    package static var width: Int? { isatty(STDOUT_FILENO) == 1 ? size.width : nil }

    /// Columns and rows; 80 and 24 if nobody knows.
    package static var size: (width: Int, height: Int) {
        var size = winsize()
        guard ioctl(STDOUT_FILENO, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0, size.ws_row > 0 else {
            return (80, 24)
        }
        return (Int(size.ws_col), Int(size.ws_row))
    }

    /// Takes the numbers 0 to 2 where the caller has closed them: else the next file or socket that is opened would have one
    /// of them, and what is said here would be written into it.
    package static func occupyClosedDescriptors() {
        for number in STDIN_FILENO...STDERR_FILENO where fcntl(number, F_GETFD) < 0 {
            // Standard output cannot be written then, which is said where something is to be.
            _ = open("/dev/null", number == STDERR_FILENO ? O_WRONLY : O_RDONLY)
        }
    }

    /// The command prints what happens as it happens. A reader that goes away before the end has not seen all of it.
    package static let isFollowing = Atomic(false)

    /// Writes to standard output at once; ends the command quietly when nobody reads any more, and as failed when what it
    /// has to say cannot be written.
    package static func write(_ text: String) {
        var bytes = Array(text.utf8)[...]
        while !bytes.isEmpty {
            let count = bytes.withUnsafeBytes { Glibc.write(STDOUT_FILENO, $0.baseAddress!, $0.count) }
            if count >= 0 {
                bytes = bytes.dropFirst(count)
                continue
            }
            switch errno {
            case EINTR: continue
            case EAGAIN:
                // A pipe that somebody has made non-blocking, and that is full.
                var output = pollfd(fd: STDOUT_FILENO, events: Int16(POLLOUT), revents: 0)
                poll(&output, 1, -1)
            case EPIPE: (isFollowing.load(ordering: .relaxed) ? ExitStatus.jobFailed : .done).leave()
            case let code:
                complain("haul: standard output cannot be written: \(String(cString: strerror(code)))")
                ExitStatus.jobFailed.leave()
            }
        }
    }

    package static func line(_ text: String) { write(text + "\n") }

    package static func complain(_ text: String) { prompt(text + "\n") }

    /// To standard error, without an end of the line.
    package static func prompt(_ line: String) {
        _ = line.withCString { Glibc.write(STDERR_FILENO, $0, strlen($0)) }
    }
}
