import Glibc
import Testing

/// A pseudo terminal, and the output written to it.
final class PseudoTerminal: @unchecked Sendable {
    private let own: Int32
    let other: Int32
    let path: String
    private var output: [UInt8] = []

    init(rows: UInt16, columns: UInt16) throws {
        var (own, other): (Int32, Int32) = (-1, -1)
        try #require(openpty(&own, &other, nil, nil, nil) == 0)
        (self.own, self.other) = (own, other)
        path = String(cString: ttyname(other))
        // Children open the terminal by its path.
        for end in [own, other] { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        _ = fcntl(own, F_SETFL, O_NONBLOCK)
        resize(rows: rows, columns: columns)
    }

    deinit {
        close(own)
        close(other)
    }

    func resize(rows: UInt16, columns: UInt16) {
        var size = winsize(ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0)
        _ = ioctl(own, UInt(TIOCSWINSZ), &size)
    }

    func type(_ text: String) { _ = text.withCString { Glibc.write(own, $0, strlen($0)) } }

    /// The output so far.
    var text: String {
        var bytes = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = read(own, &bytes, bytes.count)
            guard count > 0 else { break }
            output += bytes.prefix(count)
        }
        return String(decoding: output, as: UTF8.self)
    }

    func forget() {
        _ = text
        output = []
    }

    /// Whether typed characters are echoed.
    var echoes: Bool {
        var state = termios()
        tcgetattr(other, &state)
        return state.c_lflag & tcflag_t(ECHO) != 0
    }

    /// Whether a program has set raw mode.
    var isRaw: Bool {
        var state = termios()
        tcgetattr(other, &state)
        return state.c_lflag & tcflag_t(ICANON | ECHO) == 0
    }
}
