import Dispatch
import Glibc
import Synchronization

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

    private struct State {
        /// One for each signal, until the process ends: if libdispatch cancels one of two sources of a signal, the other
        /// one gets nothing any more.
        var sources: [Int32: any DispatchSourceSignal] = [:]
        var listeners: [Int: (numbers: [Int32], continuation: AsyncStream<Int32>.Continuation)] = [:]
        var lastID = 0
    }

    private static let state = Mutex(State())

    /// The signals as they arrive. From this call on they have no other effect.
    package static func stream(of numbers: [Int32]) -> AsyncStream<Int32> {
        AsyncStream { continuation in
            let id = state.withLock { state in
                state.lastID += 1
                state.listeners[state.lastID] = (numbers, continuation)
                for number in numbers where state.sources[number] == nil {
                    signal(number, SIG_IGN)
                    let source = DispatchSource.makeSignalSource(signal: number)
                    source.setEventHandler { deliver(number) }
                    source.resume()
                    state.sources[number] = source
                }
                return state.lastID
            }
            continuation.onTermination = { _ in state.withLock { $0.listeners[id] = nil } }
        }
    }

    private static func deliver(_ number: Int32) {
        for listener in state.withLock({ Array($0.listeners.values) }) where listener.numbers.contains(number) {
            listener.continuation.yield(number)
        }
    }

    /// The first signal cancels the work. The second one ends the process at once with status 130.
    package static func cancelling<T, E: Error>(_ work: Task<T, E>) -> Task<Void, Never> {
        Task {
            for await _ in terminations() {
                if work.isCancelled { _exit(130) }
                work.cancel()
            }
        }
    }
}
