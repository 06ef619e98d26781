import Glibc
import HaulActivities
import HaulContract
import HaulHTTP
import HaulTerminal
import Synchronization

/// Where the bodies of responses go: standard output, a file, a pipe or a device.
struct CallOutput: Sendable {
    let pipe: OutputPipe
    /// Binary data would change the settings of a terminal. `-o -` allows that.
    let refusesBinary: Bool
    /// The file to empty once there is a response, so that a failed request leaves it as it is; nil for anything else.
    let file: Int32?
    private let descriptor: Int32
    /// The file, if it was not there before.
    private let newFile: NewFile?

    private final class NewFile: Sendable {
        let path: String
        /// A response was, or is being, written to it.
        let isUsed = Atomic(false)

        init(_ path: String) { self.path = path }
    }

    /// - Throws: `ExitStatus.usage` if the file cannot be opened; the reason has been printed.
    init(_ path: String?) throws {
        guard let path, path != "-" else {
            (pipe, file, descriptor) = (OutputPipe(STDOUT_FILENO), nil, STDOUT_FILENO)
            newFile = nil
            refusesBinary = path == nil && isatty(STDOUT_FILENO) == 1
            return
        }
        let made = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o666)
        newFile = made >= 0 ? NewFile(path) : nil
        descriptor = made >= 0 ? made : open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0o666)
        guard descriptor >= 0 else {
            throw ExitStatus.printing(.usage, "\(path) cannot be written: \(String(cString: strerror(errno)))")
        }
        (pipe, refusesBinary) = (OutputPipe(descriptor, named: path), false)
        file = GetTarget.isSpecialFile(path) ? nil : descriptor
    }

    /// Empties a file, once there is a response for it.
    fileprivate func begin() {
        newFile?.isUsed.store(true, ordering: .relaxed)
        if let file, pipe.position == 0 { ftruncate(file, 0) }
    }

    /// Removes the file if this command has made it, and no response came for it.
    func removeIfUnused() {
        guard let newFile, !newFile.isUsed.load(ordering: .relaxed) else { return }
        var (mine, current) = (stat(), stat())
        // Another program may have written to it, or replaced it.
        guard fstat(descriptor, &mine) == 0, mine.st_size == 0, lstat(newFile.path, &current) == 0,
            (mine.st_dev, mine.st_ino) == (current.st_dev, current.st_ino)
        else { return }
        unlink(newFile.path)
    }

    /// Whether both write to the same file, pipe or device.
    func isSame(as other: CallOutput) -> Bool {
        var (status, its) = (stat(), stat())
        guard fstat(descriptor, &status) == 0, fstat(other.descriptor, &its) == 0 else { return false }
        return (status.st_dev, status.st_ino) == (its.st_dev, its.st_ino)
    }
}

/// Writes the response to one request as it arrives.
final class CallReceiver: ResponseReceiver {
    private let output: CallOutput
    /// Where the head goes by itself.
    private let headOutput: CallOutput?
    private let includesHead: Bool
    private let state = Mutex((hasWritten: false, received: Int64(0)))

    init(_ output: CallOutput, _ headOutput: CallOutput? = nil, includesHead: Bool) {
        (self.output, self.headOutput, self.includesHead) = (output, headOutput, includesHead)
    }

    /// Bytes of bodies.
    var received: Int64 { state.withLock { $0.received } }

    var hasWritten: Bool { state.withLock { $0.hasWritten } }

    func destination(for head: ResponseHead) -> any BodyDestination {
        output.begin()
        write(head: head)
        return Destination(receiver: self, start: output.pipe.position)
    }

    /// Writes `HTTP/1.1 200` and the header fields, as they came, before the body if `includesHead`, and into an output
    /// of their own, once if both are the same.
    ///
    /// - Parameter isAlone: Nothing of the response is written where its body would be.
    func write(head: ResponseHead, isAlone: Bool = false) {
        let version = head.facts?.httpVersion ?? "1.1"
        let lines = ["HTTP/\(version) \(head.status)"] + head.headers.fields.map { "\($0.name): \($0.value)".printable }
        var outputs = [headOutput].compactMap(\.self)
        if includesHead, !isAlone, headOutput?.pipe !== output.pipe { outputs.append(output) }
        for output in outputs {
            append(Array((lines.joined(separator: "\n") + "\n\n").utf8), to: output)
        }
    }

    func write(_ body: [UInt8]) {
        guard !output.refusesBinary || !body.contains(0) else { return }
        append(body, to: output)
        state.withLock { $0.received += Int64(body.count) }
    }

    private func append(_ bytes: [UInt8], to output: CallOutput) {
        output.begin()
        state.withLock { $0.hasWritten = true }
        _ = output.pipe.append(bytes, at: output.pipe.position)
    }

    fileprivate func append(
        _ piece: [UInt8], at offset: Int64, wake: @escaping @Sendable () async -> Bool
    ) -> SinkResult {
        if output.refusesBinary, piece.contains(0) {
            return .failed(
                .failed(
                    Failure(
                        .io,
                        "the response is binary: -o FILE writes it into a file, and -o - to the terminal all the same",
                        isFinal: true)))
        }
        let result = output.pipe.append(piece, at: offset, wake: wake)
        if case .accepted = result {
            state.withLock { ($0.hasWritten, $0.received) = (true, $0.received + Int64(piece.count)) }
        }
        return result
    }

    fileprivate func flush() async throws(TransferError) { try await output.pipe.flush() }

    private struct Destination: BodyDestination {
        let receiver: CallReceiver
        /// The position in the output where the body begins.
        let start: Int64

        func sink(at offset: Int64, wake: @escaping @Sendable () async -> Bool) -> any BodySink {
            Sink(receiver, at: start + offset, wake: wake)
        }
    }

    private final class Sink: BodySink {
        private let receiver: CallReceiver
        private let wake: @Sendable () async -> Bool
        private let offset: Mutex<Int64>

        init(_ receiver: CallReceiver, at offset: Int64, wake: @escaping @Sendable () async -> Bool) {
            (self.receiver, self.wake) = (receiver, wake)
            self.offset = Mutex(offset)
        }

        func append(_ bytes: UnsafeRawPointer, _ count: Int) -> SinkResult {
            let piece = [UInt8](UnsafeRawBufferPointer(start: bytes, count: count))
            return offset.withLock { offset in
                let result = receiver.append(piece, at: offset, wake: wake)
                if case .accepted = result { offset += Int64(count) }
                return result
            }
        }

        func releaseMemory() {}
        func handOver() {}
        func end() {}
        func finish() async throws(TransferError) { try await receiver.flush() }
    }
}
