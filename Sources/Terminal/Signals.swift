import Dispatch
import Glibc

/// Signals as a stream, so that they are handled where the work is.
package enum Signals {
    /// A reader that went away, or a file over `ulimit -f`, makes a write fail. It does not kill us.
    package static func ignoreFailedWrites() {
        for number in [SIGPIPE, SIGXFSZ] { signal(number, SIG_IGN) }
    }

    /// Ends the command as interrupted, whatever it does, until `terminations()` is asked for. What was ignored stays so: nohup.
    package static func interruptCommand() {
        // Swift's own handler tells where each thread is, and goes on.
        signal(SIGQUIT, SIG_DFL)
        for number in [SIGTERM, SIGINT, SIGHUP] {
            let before = signal(number) { _ in _exit(130) }
            if let before, unsafeBitCast(before, to: Int.self) == unsafeBitCast(SIG_IGN, to: Int.self) {
                signal(number, SIG_IGN)
            }
        }
    }

    /// SIGTERM, SIGINT and SIGHUP, as they come.
    package static func terminations() -> AsyncStream<Int32> { stream(of: [SIGTERM, SIGINT, SIGHUP]) }

    /// Signals, as they come; they do nothing else any more.
    package static func stream(of numbers: [Int32]) -> AsyncStream<Int32> {
        AsyncStream { continuation in
            let sources = numbers.map { number in
                signal(number, SIG_IGN)
                let source = DispatchSource.makeSignalSource(signal: number)
                source.setEventHandler { continuation.yield(number) }
                source.resume()
                return source
            }
            nonisolated(unsafe) let kept = sources
            continuation.onTermination = { _ in for source in kept { source.cancel() } }
        }
    }

    /// The first signal ends the work well, the second one at once.
    package static func cancelling<T>(_ work: Task<T, Never>) -> Task<Void, Never> {
        Task {
            for await _ in terminations() {
                if work.isCancelled { _exit(130) }
                work.cancel()
            }
        }
    }
}
