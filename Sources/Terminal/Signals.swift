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
                state.withLock { _ = $0.ignored.insert(number) }
            }
        }
    }

    /// SIGTERM, SIGINT and SIGHUP, unless they were ignored at the start: a source would get them all the same.
    package static func terminations() -> AsyncStream<Int32> {
        let ignored = state.withLock(\.ignored)
        return stream(of: [SIGTERM, SIGINT, SIGHUP].filter { !ignored.contains($0) })
    }

    private struct State {
        /// One for each signal, until the process ends: if libdispatch cancels one of two sources of a signal, the other
        /// one gets nothing any more.
        var sources: [Int32: any DispatchSourceSignal] = [:]
        var listeners: [Int: (numbers: [Int32], continuation: AsyncStream<Int32>.Continuation)] = [:]
        var lastID = 0
        /// The terminations that were ignored at the start.
        var ignored: Set<Int32> = []
        /// The process is a command of several parts. A signal between two of them, when there is no task to cancel,
        /// ends the process as it would have before the first one.
        var endsWithoutListener = false
    }

    private static let state = Mutex(State())

    /// The signals as they arrive. From this call on they have no other effect.
    package static func stream(of numbers: [Int32]) -> AsyncStream<Int32> {
        AsyncStream { continuation in
            let id = state.withLock { state in
                state.lastID += 1
                state.listeners[state.lastID] = (numbers, continuation)
                for number in numbers where state.sources[number] == nil {
                    // libdispatch replaces the handler, a little later and on another thread. Until then a signal has the
                    // effect that it had: if it were ignored, it would be lost.
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
        let listeners = state.withLock { state in state.listeners.values.filter { $0.numbers.contains(number) } }
        if listeners.isEmpty, state.withLock(\.endsWithoutListener) { _exit(130) }
        for listener in listeners { listener.continuation.yield(number) }
    }

    /// The first signal cancels the work. The second one ends the process at once with status 130.
    package static func cancelling<T, E: Error>(_ work: Task<T, E>) -> Task<Void, Never> {
        state.withLock { $0.endsWithoutListener = true }
        return Task {
            var isFirst = true
            for await _ in terminations() {
                // The work may be cancelled already without a signal before this one: a part of a larger task, which
                // the same signal has reached first.
                if !isFirst { _exit(130) }
                isFirst = false
                work.cancel()
            }
        }
    }
}
