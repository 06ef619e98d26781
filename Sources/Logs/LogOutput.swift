import Glibc
import HaulContract
import HaulExecutors
import Logging
import Synchronization

/// Writes lines to a descriptor, on a thread of its own. So code that logs never waits for a slow reader of the log.
///
/// While the reader is slow, up to `bound` bytes are buffered. Further lines are dropped, and a line reports how many.
package final class LogOutput: Sendable {
    private struct State: Sendable {
        var waiting: [UInt8] = []
        var dropped = 0
        var isWriting = false
    }

    private let descriptor: Int32
    private let format: LogFormat
    private let bound: Int
    private let thread = BlockingPool(name: "log", limit: 1)
    private let state = Mutex(State())

    /// - Parameters:
    ///   - format: Of the line that reports dropped lines.
    ///   - bound: In bytes.
    package init(descriptor: Int32, format: LogFormat, bound: Int = 4 << 20) {
        (self.descriptor, self.format, self.bound) = (descriptor, format, bound)
    }

    /// Buffers a whole line, with its line feed. Does not block.
    func write(_ line: String) {
        let begins = state.withLock { state in
            guard state.waiting.count < bound else {
                state.dropped += 1
                return false
            }
            state.waiting += line.utf8
            defer { state.isWriting = true }
            return !state.isWriting
        }
        if begins { thread.submit { self.drain() } }
    }

    /// Blocks until all lines are written, at most for `limit`. To be called before the process ends.
    package func flush(within limit: Duration = .milliseconds(500)) {
        let end = ContinuousClock.now + limit
        while state.withLock({ $0.isWriting }), .now < end { usleep(1000) }
    }

    private func drain() {
        while true {
            let (lines, dropped) = state.withLock { state in
                defer { (state.waiting, state.dropped) = ([], 0) }
                state.isWriting = !state.waiting.isEmpty
                return (state.waiting, state.dropped)
            }
            if lines.isEmpty { return }
            writeAll(lines)
            if dropped > 0 {
                let line = format.line(
                    LogFormat.Entry(
                        time: Timestamp.text(UnixTime.milliseconds), level: .warning,
                        message: "lines of the log were dropped because they were not read in time",
                        fields: [("lines", "\(dropped)")]))
                writeAll(Array(line.utf8))
            }
        }
    }

    /// Writes all bytes. Drops them silently if the descriptor fails, because there is nowhere to report the error.
    private func writeAll(_ bytes: [UInt8]) {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
            if count > 0 {
                rest = rest.dropFirst(count)
            } else if errno == EAGAIN {
                var ready = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
                poll(&ready, 1, 1000)
            } else if errno != EINTR {
                return
            }
        }
    }
}
