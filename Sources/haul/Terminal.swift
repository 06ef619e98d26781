import Glibc

/// Standard output and error.
enum Terminal {
    static var isInteractive: Bool {
        isatty(STDOUT_FILENO) == 1 && getenv("TERM").map { String(cString: $0) } != "dumb"
    }

    /// Columns; 80 if nobody knows.
    static var width: Int {
        var size = winsize()
        guard ioctl(STDOUT_FILENO, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else { return 80 }
        return Int(size.ws_col)
    }

    /// Writes to standard output at once; ends the command quietly when nobody reads any more, and as failed when what it
    /// has to say cannot be written.
    static func write(_ text: String) {
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
            case EPIPE: ExitStatus.done.leave()
            case let code:
                complain("haul: standard output cannot be written: \(String(cString: strerror(code)))")
                ExitStatus.jobFailed.leave()
            }
        }
    }

    static func line(_ text: String) { write(text + "\n") }

    static func complain(_ text: String) {
        let line = text + "\n"
        _ = line.withCString { Glibc.write(STDERR_FILENO, $0, strlen($0)) }
    }
}
