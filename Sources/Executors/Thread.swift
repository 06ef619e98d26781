import CHaulLinux
import Glibc

/// Starts a detached thread that runs `body` and ends. Debuggers show the first 15 bytes of `name`.
package func startThread(name: String, _ body: @escaping @Sendable () -> Void) {
    final class Start {
        let name: String
        let body: @Sendable () -> Void
        init(name: String, body: @escaping @Sendable () -> Void) { (self.name, self.body) = (name, body) }
    }
    let start = Unmanaged.passRetained(Start(name: name, body: body)).toOpaque()
    var thread = pthread_t()
    let status = pthread_create(
        &thread, nil,
        { pointer in
            let start = Unmanaged<Start>.fromOpaque(pointer!).takeRetainedValue()
            clinux_name_thread(start.name)
            start.body()
            return nil
        }, start)
    precondition(status == 0, "cannot start the thread \(name): \(String(cString: strerror(status)))")
    pthread_detach(thread)
}

/// CLOCK_MONOTONIC in nanoseconds. This clock does not jump when the wall clock is set.
package func monotonicNanoseconds() -> UInt64 {
    var time = timespec()
    clock_gettime(CLOCK_MONOTONIC, &time)
    return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
}

/// Measures the time since its creation, by CLOCK_MONOTONIC.
package struct Stopwatch: Sendable {
    private let begun = monotonicNanoseconds()

    package init() {}

    package var seconds: Double { Double(monotonicNanoseconds() - begun) / 1e9 }
}
