import Dispatch
import Glibc

/// Signals as a stream, so that the task that does the work also handles them.
package enum Signals {
    /// A write to a pipe without a reader, or beyond `ulimit -f`, returns an error. Without this it would kill the
    /// process.
    package static func ignoreFailedWrites() {
        for number in [SIGPIPE, SIGXFSZ] { signal(number, SIG_IGN) }
    }

    /// Until `terminations()` is called, these signals end the process at once with status 130. A signal that was
    /// ignored at the start stays ignored (nohup).
    package static func interruptCommand() {
        // Swift's own handler prints a backtrace of each thread and does not end the process.
        signal(SIGQUIT, SIG_DFL)
        for number in [SIGTERM, SIGINT, SIGHUP] {
            let before = signal(number) { _ in _exit(130) }
            if let before, unsafeBitCast(before, to: Int.self) == unsafeBitCast(SIG_IGN, to: Int.self) {
                signal(number, SIG_IGN)
            }
        }
    }

    /// SIGTERM, SIGINT and SIGHUP.
    package static func terminations() -> AsyncStream<Int32> { stream(of: [SIGTERM, SIGINT, SIGHUP]) }

    /// The signals as they arrive. From this call on they have no other effect.
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

    /// The first signal cancels the work. The second one ends the process at once with status 130.
    package static func cancelling<T>(_ work: Task<T, Never>) -> Task<Void, Never> {
        Task {
            for await _ in terminations() {
                if work.isCancelled { _exit(130) }
                work.cancel()
            }
        }
    }
}
