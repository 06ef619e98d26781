import CHaulLinux
import Glibc
import HaulExecutors
import HaulTerminal
import Synchronization

/// A program that this process has started, and that ends with it.
final class ChildProgram: Sendable {
    /// What the program is in messages, like `the worker`.
    let name: String
    private let process: pid_t
    private let end = Mutex<Int32?>(nil)
    /// Finishes when the program has ended.
    private let ended: Task<Void, Never>

    private init(_ name: String, _ process: pid_t, _ finished: AsyncStream<Never>) {
        (self.name, self.process) = (name, process)
        ended = Task { for await _ in finished {} }
    }

    /// Starts the program. It gets SIGTERM when this process ends, for whatever reason.
    ///
    /// - Parameters:
    ///   - environment: Variables that are set in addition to those of this process. Secrets belong here, because other
    ///     users can read the arguments of a process.
    ///   - hasEnded: Called once when the program has ended.
    /// - Throws: `ExitStatus`; the reason has been printed.
    static func start(
        _ name: String, _ arguments: [String], environment: [String: String] = [:],
        hasEnded: @escaping @Sendable (ChildProgram) -> Void
    ) async throws -> ChildProgram {
        let variables =
            Self.environment.filter { line in !environment.keys.contains { line.hasPrefix("\($0)=") } }
            + environment.map { "\($0.key)=\($0.value)" }
        let (child, reason): (ChildProgram?, Int32) = await withCheckedContinuation { continuation in
            // The kernel sends the signal when the thread that has started a child ends. So that thread waits for it.
            startThread(name: "child") {
                let process = withPointers(arguments) { arguments in
                    withPointers(variables) { clinux_start_child(arguments[0], arguments, $0, SIGTERM) }
                }
                guard process > 0 else { return continuation.resume(returning: (nil, errno)) }
                let (finished, finishing) = AsyncStream.makeStream(of: Never.self)
                let child = ChildProgram(name, process, finished)
                continuation.resume(returning: (child, 0))
                var status: Int32 = 0
                while waitpid(process, &status, 0) < 0, errno == EINTR {}
                child.end.withLock { $0 = status }
                finishing.finish()
                hasEnded(child)
            }
        }
        guard let child else {
            throw ExitStatus.printing(.usage, "cannot start \(name): \(String(cString: strerror(reason)))")
        }
        return child
    }

    /// Sends SIGTERM and returns when the program has ended. A program that has not ended after `limit` is killed.
    func stop(within limit: Duration) async {
        guard end.withLock(\.self) == nil else { return }
        kill(process, SIGTERM)
        let killer = Task {
            try await Task.sleep(for: limit)
            kill(self.process, SIGKILL)
        }
        await ended.value
        killer.cancel()
    }

    /// How the program has ended, for a message.
    var ending: String {
        guard let status = end.withLock(\.self) else { return "runs" }
        let signal = status & 0x7F
        return signal == 0 ? "ended with exit status \(status >> 8 & 0xFF)" : "was killed by signal \(signal)"
    }

    private static var environment: [String] {
        var lines: [String] = []
        var next = environ
        while let line = next.pointee {
            lines.append(String(cString: line))
            next += 1
        }
        return lines
    }

    /// Calls `body` with an array of C strings that ends with NULL.
    private static func withPointers<T>(
        _ texts: [String], _ body: (UnsafePointer<UnsafeMutablePointer<CChar>?>) -> T
    ) -> T {
        var pointers = texts.map { strdup($0) } + [nil]
        defer { for pointer in pointers { free(pointer) } }
        return pointers.withUnsafeMutableBufferPointer { body(UnsafePointer($0.baseAddress!)) }
    }
}
