import Glibc

/// Input that the terminal does not show.
package enum HiddenInput {
    /// State of the signal handler, which must not allocate or lock.
    private nonisolated(unsafe) static var terminal: Int32 = -1
    private nonisolated(unsafe) static var original = termios()

    /// Runs `body` while the terminal shows nothing that is typed. If a signal ends the process meanwhile, with status
    /// 130, the terminal is restored first.
    package static func hiding<T>(on terminal: Int32, _ body: () throws -> T) rethrows -> T {
        Self.terminal = terminal
        tcgetattr(terminal, &original)
        let handlers = [SIGINT, SIGTERM, SIGHUP].map { number in
            let before = signal(number) { _ in
                HiddenInput.restore()
                _exit(130)
            }
            if isIgnored(before) { signal(number, SIG_IGN) }
            return (number, before)
        }
        var hidden = original
        hidden.c_lflag &= ~tcflag_t(ECHO)
        tcsetattr(terminal, TCSAFLUSH, &hidden)
        defer {
            restore()
            for (number, before) in handlers { signal(number, before) }
        }
        return try body()
    }

    private static func restore() { tcsetattr(terminal, TCSAFLUSH, &original) }

    private static func isIgnored(_ handler: sighandler_t?) -> Bool {
        handler.map { unsafeBitCast($0, to: Int.self) } == unsafeBitCast(SIG_IGN, to: Int.self)
    }
}
