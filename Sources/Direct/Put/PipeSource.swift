import Glibc
import HaulContract
import HaulExecutors
import HaulHTTP
import HaulStorage
import Synchronization

/// Standard input or a pipe, which `haul put` sends while it reads. The last bytes are kept in memory until the server
/// has them, or until there are too many. Only if a server requires the length is the whole of it stored in a file,
/// which has no name and so disappears with this process.
final class PipeSource: SourceStream {
    private struct State {
        /// The offset of the first byte that is kept.
        var start: Int64 = 0
        var kept: [UInt8] = []
        /// How many of the first bytes of `kept` are dropped.
        var dropped = 0
        /// How far the network has read, if the pipe is sent while it is read.
        var sent: Int64?
        var hasEnded = false
        var failure: TransferError?
        var isReading = false
        /// The file with all bytes, and their number.
        var file: (descriptor: Int32, size: Int64)?
        var waiters: [@Sendable () -> Void] = []

        var end: Int64 { start + Int64(kept.count - dropped) }

        mutating func drop(before offset: Int64) {
            let newStart = min(offset, end)
            guard newStart > start else { return }
            dropped += Int(newStart - start)
            start = newStart
            // Moving the rest for each dropped block would take as long as sending it.
            if dropped >= 8 << 20 || dropped == kept.count {
                kept.removeFirst(dropped)
                dropped = 0
            }
        }

        func bytes(from offset: Int64, _ count: Int) -> ArraySlice<UInt8> {
            kept[(dropped + Int(offset - start))...].prefix(count)
        }
    }

    /// Bytes. As many are sent before any are dropped, so that a request which breaks off early can be sent again.
    static let maxKept: Int64 = 16 << 20
    /// The bytes that are kept or read ahead.
    private static let capacity = maxKept + 8 << 20
    /// A pipe that ends within so many bytes is sent with its length, as a file.
    private static let small: Int64 = 1 << 20
    private static let block = 256 << 10
    private static let blocking = BlockingPool(name: "pipe", limit: 100)

    let version = SourceVersion(size: 0, validator: "pipe")
    private let path: String
    private var name: String { Self.name(of: path) }
    private let state = Mutex(State())

    /// - Parameter path: The path of a pipe, or - for standard input.
    init(_ path: String) { self.path = path }

    deinit { if let file = state.withLock({ $0.file }) { close(file.descriptor) } }

    /// A path as messages show it.
    static func name(of path: String) -> String { path == "-" ? "standard input" : path }

    /// Whether a path is one of a pipe.
    static func isPipe(_ path: String) -> Bool {
        var status = stat()
        return path == "-" || stat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFIFO
    }

    var size: Int64? { state.withLock { $0.file?.size ?? ($0.hasEnded ? $0.end : nil) } }
    var keptFrom: Int64 { state.withLock { $0.file == nil ? $0.start : 0 } }

    func drop(before offset: Int64) {
        state.withLock { if $0.file == nil { $0.drop(before: offset) } }
        fill()
    }

    func findSize(isRequired: Bool) async throws(TransferError) {
        if size == nil { _ = try await waitForBytes(Self.small, from: 0) }
        guard isRequired, keptFrom > 0 || size == nil else { return }
        // From here on, only what is stored is dropped.
        let isWhole = state.withLock { state in
            state.sent = nil
            return state.start == 0
        }
        guard isWhole else { throw .failed(Self.isGone) }
        try await store()
    }

    func waitForBytes(_ count: Int64, from offset: Int64) async throws(TransferError) -> Int64 {
        while true {
            fill()
            let signal = AsyncStream<Void>.makeStream(bufferingPolicy: .bufferingNewest(1))
            let result = state.withLock { state -> Result<Int64, TransferError>? in
                if let size = state.file?.size { return .success(size) }
                if let failure = state.failure { return .failure(failure) }
                if state.hasEnded || state.end - offset >= count { return .success(state.end) }
                state.waiters.append { signal.continuation.finish() }
                return nil
            }
            if let result { return try result.get() }
            for await _ in signal.stream {}
            if Task.isCancelled { throw .cancelled }
        }
    }

    func read(_ range: Range<Int64>) async throws(TransferError) -> [UInt8] {
        let kept = state.withLock { state -> [UInt8]? in
            guard state.file == nil, range.lowerBound >= state.start, range.upperBound <= state.end else { return nil }
            return Array(state.bytes(from: range.lowerBound, range.count))
        }
        if let kept { return kept }
        guard let file = state.withLock({ $0.file }) else { throw .failed(Self.isGone) }
        return try await Self.blocking.run { () throws(TransferError) in
            var done = 0
            let bytes = [UInt8](unsafeUninitializedCapacity: range.count) { buffer, count in
                while done < range.count {
                    let got = pread(
                        file.descriptor, buffer.baseAddress! + done, range.count - done, Int(range.lowerBound) + done)
                    if got < 0, errno == EINTR { continue }
                    guard got > 0 else { break }
                    done += got
                }
                count = done
            }
            guard done == range.count else { throw Self.failure("the stored pipe cannot be read") }
            return bytes
        }
    }

    func check() async throws(TransferError) {}

    /// What a repetition of bytes fails with that are dropped.
    static let isGone = Failure(
        .sourceChanged, "a pipe cannot be read twice, and only its last \(maxKept >> 20) MiB are kept in memory",
        isFinal: true)

    private static func failure(_ what: String) -> TransferError {
        .failed(Failure(.io, "\(what): \(String(cString: strerror(errno)))", isFinal: true))
    }

    // MARK: Reading

    /// Reads until enough is kept, unless a thread is doing that.
    private func fill() {
        let begins = state.withLock { state in
            guard !state.isReading, !state.hasEnded, state.failure == nil, state.file == nil else { return false }
            state.isReading = true
            return true
        }
        guard begins else { return }
        Self.blocking.submit { [self] in
            var buffer = [UInt8](repeating: 0, count: Self.block)
            while true {
                let hasRoom = state.withLock { state in
                    // Once the first bytes are dropped, nothing can be sent again.
                    if let sent = state.sent, state.start > 0 || sent > Self.maxKept { state.drop(before: sent) }
                    state.isReading = state.end - state.start <= Self.capacity - Int64(Self.block)
                    return state.isReading
                }
                guard hasRoom else { return }
                let result = Result { () throws(TransferError) in try next(&buffer) }
                let waiters = state.withLock { state in
                    switch result {
                    case .success(0): state.hasEnded = true
                    case .success(let count):
                        // An array that grows by itself may take twice as much.
                        if state.kept.count > Self.small { state.kept.reserveCapacity(Int(Self.capacity) + 9 << 20) }
                        state.kept += buffer[..<count]
                    case .failure(let error): state.failure = error
                    }
                    defer { state.waiters = [] }
                    return state.waiters
                }
                for wake in waiters { wake() }
                guard case .success(1...) = result else { return }
            }
        }
    }

    /// Reads what is there, and waits for at least one byte. 0 at the end. One thread at a time calls this.
    private func next(_ buffer: inout [UInt8]) throws(TransferError) -> Int {
        let input = descriptor.withLock { known -> Int32 in
            // To open a named pipe waits for its writer.
            if known == nil { known = path == "-" ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC) }
            return known!
        }
        guard input >= 0 else { throw Self.failure("\(name) cannot be read") }
        while true {
            let count = Glibc.read(input, &buffer, buffer.count)
            if count >= 0 { return count }
            if errno == EAGAIN {
                // Another process that has this pipe, too, may have made it non-blocking.
                var ready = pollfd(fd: input, events: Int16(POLLIN), revents: 0)
                poll(&ready, 1, -1)
            } else if errno != EINTR {
                throw Self.failure("\(name) cannot be read")
            }
        }
    }

    private let descriptor = Mutex<Int32?>(nil)

    /// Stores the whole pipe in a file without a name, because its length is required.
    private func store() async throws(TransferError) {
        let directory = getenv("TMPDIR").map { String(cString: $0) } ?? "/tmp"
        let what =
            "the length of \(name) is required, but it cannot be stored in \(directory): set TMPDIR to another directory"
        var template = Array("\(directory)/haul-put-XXXXXX".utf8CString)
        let file = mkstemp(&template)
        guard file >= 0 else { throw Self.failure(what) }
        unlink(template)
        var isStored = false
        defer { if !isStored { close(file) } }
        var written: Int64 = 0
        while true {
            let end = try await waitForBytes(1, from: written)
            if end == written { break }
            let bytes = try await read(written..<min(end, written + Int64(Self.block)))
            try await Self.blocking.run { () throws(TransferError) in
                var rest = bytes[...]
                while !rest.isEmpty {
                    let count = rest.withUnsafeBytes { Glibc.write(file, $0.baseAddress, $0.count) }
                    if count < 0, errno == EINTR { continue }
                    guard count > 0 else { throw Self.failure(what) }
                    rest = rest.dropFirst(count)
                }
            }
            written += Int64(bytes.count)
            drop(before: written)
        }
        isStored = true
        state.withLock { $0.file = (file, written) }
    }
}

// MARK: Sending while reading

extension PipeSource {
    private struct Body: BodySupply {
        let pipe: PipeSource
        var length: Int64? { nil }

        func source(wake: @escaping @Sendable () async -> Void) -> any BodySource { Reader(pipe, wake) }
    }

    /// Sends the pipe from its first byte on.
    private final class Reader: BodySource {
        private let pipe: PipeSource
        private let wake: @Sendable () async -> Void
        private let position = Atomic<Int64>(0)

        init(_ pipe: PipeSource, _ wake: @escaping @Sendable () async -> Void) {
            (self.pipe, self.wake) = (pipe, wake)
            pipe.state.withLock { if $0.start == 0 { $0.sent = 0 } }
        }

        func read(into buffer: UnsafeMutableRawBufferPointer) -> SourceResult {
            let position = position.load(ordering: .relaxed)
            let result = pipe.state.withLock { state -> SourceResult in
                guard position >= state.start else { return .failed(.failed(PipeSource.isGone)) }
                let bytes = state.bytes(from: position, buffer.count)
                guard bytes.isEmpty else {
                    buffer.copyBytes(from: bytes)
                    state.sent = position + Int64(bytes.count)
                    return .bytes(bytes.count)
                }
                if let failure = state.failure { return .failed(failure) }
                if state.hasEnded { return .end }
                let wake = wake
                state.waiters.append { Task { await wake() } }
                return .wait
            }
            if case .bytes(let count) = result { self.position.store(position + Int64(count), ordering: .relaxed) }
            pipe.fill()
            return result
        }

        func end() {}
    }

    var body: any BodySupply { Body(pipe: self) }
}

/// Pipes, and the files of a directory.
struct PutSources: SourceFolder {
    let files: any SourceFolder
    /// By the paths that the jobs of `haul put` have for them.
    let pipes: [String: PipeSource]

    func source(_ path: String) async throws(TransferError) -> any SourceFile {
        if let pipe = pipes[path] { return pipe }
        return try await files.source(path)
    }
}
