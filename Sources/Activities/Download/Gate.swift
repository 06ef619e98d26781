import Glibc
import HaulContract
import HaulExecutors
import HaulHTTP
import HaulStorage
import Synchronization

/// The operator's command that sees each downloaded file before it gets its name, and may refuse it.
package final class Gate: Sendable {
    /// What the operator has configured.
    package struct Settings: Sendable, Equatable {
        /// The command line, for /bin/sh.
        package var command: String
        /// How many commands may run at once.
        package var limit = 4
        /// How long a command may run before it is killed.
        package var timeout: Duration = .seconds(300)
        /// The minimum time before a job is attempted again after its gate has failed. The cause may be a scanner that
        /// is being restarted, which takes longer than the first retries of a download.
        package var retryAfter: Duration = .seconds(30)

        package init(command: String) { self.command = command }
    }

    package enum Verdict: Sendable, Equatable {
        case accepted
        /// The value is the last line of the command's output.
        case refused(String)
        /// The command has not judged the file. The value says why.
        case failed(String)

        /// The value of the metric's label `result`.
        package var name: String {
            switch self {
            case .accepted: "accepted"
            case .refused: "refused"
            case .failed: "failed"
            }
        }
    }

    /// What a command learns about a job from its environment variables.
    struct Subject: Sendable {
        let id: String
        let queue: String
        /// Without a query and credentials.
        let url: String
        /// Where its redirects led, in the same form; "" if that is not known.
        let finalURL: String
        let bytes: Int64
    }

    /// Bytes of the command's last line that become the message.
    private static let maxLine = 500
    /// The variables of this process that a command gets. All others may be secrets, or settings of this worker.
    private static let inherited = [
        "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "LC_MESSAGES", "TZ",
        "TMPDIR",
    ]

    package let settings: Settings
    private let permits: Permits
    /// For each command one thread waits for its end, and one may write its input.
    private let threads: BlockingPool

    package init(_ settings: Settings) {
        self.settings = settings
        permits = Permits(settings.limit)
        threads = BlockingPool(name: "gate", limit: settings.limit * 2)
    }

    /// Runs the command for a file, once it is its turn.
    ///
    /// - Returns: The verdict, and how long the command took.
    /// - Throws: `.cancelled`, and what reading the file throws.
    func judge(_ file: GatedFile, _ subject: Subject) async throws(TransferError) -> (Verdict, duration: Duration) {
        guard await permits.enter() else { throw .cancelled }
        defer { permits.leave() }
        let begun = ContinuousClock.now
        let environment = Self.environment(file, subject)
        let text = settings.command
        let command: ShellCommand
        do throws(ShellCommand.StartError) {
            let input = file.descriptor
            command = try await threads.run { () throws(ShellCommand.StartError) in
                try ShellCommand(guarded: text, environment: environment, input: input)
            }
        } catch {
            let reason = String(cString: strerror(error.systemError))
            return (.failed("the gate cannot be started, because /bin/sh does not run: \(reason)"), .now - begun)
        }
        let result = await withTaskCancellationHandler {
            await self.result(of: command, file)
        } onCancel: {
            command.stop()
        }
        let end = try result.get()
        if end == .stopped || Task.isCancelled { throw .cancelled }
        return (verdict(end, Self.lastLine(of: command.lastOutput, file)), .now - begun)
    }

    private func result(
        of command: ShellCommand, _ file: GatedFile
    ) async -> Result<ShellCommand.End, TransferError> {
        let (threads, timeout) = (threads, settings.timeout)
        async let end = threads.run { command.wait(within: timeout) }
        guard case .stream(let send) = file.contents else { return .success(await end) }
        do throws(TransferError) {
            try await send { bytes in await threads.run { command.write(bytes) } }
        } catch {
            command.stop()
            _ = await end
            return .failure(error)
        }
        command.closeInput()
        return .success(await end)
    }

    private func verdict(_ end: ShellCommand.End, _ line: String) -> Verdict {
        let detail = line.isEmpty ? "" : ": \(line)"
        switch end {
        case .exited(0): return .accepted
        case .exited(1): return .refused(line.isEmpty ? "the gate refuses the file, and does not say why" : line)
        case .exited(let status): return .failed("the gate ended with status \(status)\(detail)")
        case .timedOut, .stopped:
            let seconds = settings.timeout.components.seconds
            return .failed("the gate took longer than \(seconds) s, which is --gate-timeout\(detail)")
        }
    }

    private static func environment(_ file: GatedFile, _ subject: Subject) -> [String] {
        var result = inherited.compactMap { name in getenv(name).map { "\(name)=\(String(cString: $0))" } }
        result += [
            "GATE_ID=\(subject.id)", "GATE_QUEUE=\(subject.queue)", "GATE_URL=\(subject.url)",
            "GATE_FINAL_URL=\(subject.finalURL)", "GATE_BYTES=\(subject.bytes)", "GATE_CHECKSUM=\(file.checksum ?? "")",
            "GATE_FILE=\(file.name)",
        ]
        if case .file(_, let path, let root) = file.contents { result += ["GATE_PATH=\(path)", "GATE_ROOT=\(root)"] }
        return result
    }

    /// The last line that is not blank, without control characters. The final name replaces the hidden path of the
    /// file, which would mean nothing to a reader.
    static func lastLine(of output: [UInt8], _ file: GatedFile) -> String {
        let lines = String(decoding: output, as: UTF8.self).split { $0.isNewline }
        for candidate in lines.reversed() {
            var text = String(candidate)
            if case .file(_, let path, _) = file.contents { text.replace(path, with: file.name) }
            let shown = text.unicodeScalars.filter { scalar in
                switch scalar.properties.generalCategory {
                case .control, .format, .surrogate, .privateUse, .unassigned: scalar == "\t"
                default: true
                }
            }
            let line = String(String.UnicodeScalarView(shown)).split { $0.isWhitespace }.joined(separator: " ")
            if !line.isEmpty { return line.truncated(toBytes: maxLine) }
        }
        return ""
    }
}

/// A semaphore that lets a limited number of tasks in at once. The others wait in the order in which they came.
private final class Permits: Sendable {
    private struct State {
        var free: Int
        var lastID = 0
        var waiting: [(id: Int, continuation: CheckedContinuation<Bool, Never>)] = []
    }

    private let state: Mutex<State>

    init(_ count: Int) { state = Mutex(State(free: count)) }

    /// Waits for a permit. False if the task was cancelled meanwhile.
    func enter() async -> Bool {
        let id = state.withLock { state in
            state.lastID += 1
            return state.lastID
        }
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isAdmitted = state.withLock { state -> Bool? in
                    if Task.isCancelled { return false }
                    guard state.free > 0 else {
                        state.waiting.append((id, continuation))
                        return nil
                    }
                    state.free -= 1
                    return true
                }
                if let isAdmitted { continuation.resume(returning: isAdmitted) }
            }
        } onCancel: {
            state.withLock { state -> CheckedContinuation<Bool, Never>? in
                guard let index = state.waiting.firstIndex(where: { $0.id == id }) else { return nil }
                return state.waiting.remove(at: index).continuation
            }?.resume(returning: false)
        }
    }

    func leave() {
        state.withLock { state -> CheckedContinuation<Bool, Never>? in
            if state.waiting.isEmpty {
                state.free += 1
                return nil
            }
            return state.waiting.removeFirst().continuation
        }?.resume(returning: true)
    }
}
