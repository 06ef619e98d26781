import Glibc
import HaulContract
import HaulTestSupport
import Testing

@testable import HaulHTTP

/// Bytes that differ everywhere: the same for everybody who asks for the same range.
func testBytes(_ count: Int, from offset: Int = 0) -> [UInt8] {
    (offset..<offset + count).map { UInt8(truncatingIfNeeded: ($0 &* 2_654_435_761) >> 13) }
}

/// An engine that may go to the tests' own servers, and nowhere else.
func localEngine(_ path: WritePath = WritePath(blocks: 2)) -> TransferEngine {
    var configuration = TransferEngine.Configuration()
    configuration.policy = .restricted(allowed: [Network("127.0.0.0/8")!])
    return TransferEngine(configuration: configuration, path: path)
}

func localRequest(_ url: String) -> Request {
    var request = Request(url: url)
    request.connectTimeout = .seconds(10)
    request.stallTimeout = .seconds(10)
    return request
}

/// A file without a name, in a directory that has a disk.
func temporaryDescriptor() -> Int32 {
    var template = Array("/var/tmp/haul-test-XXXXXX\0".utf8CString)
    let descriptor = mkstemp(&template)
    precondition(descriptor >= 0)
    unlink(template)
    return descriptor
}

/// Appends in pieces of at most 16 KiB, as libcurl does, and waits for blocks when there are none.
func append(_ bytes: [UInt8], to writer: FileWriter) async throws {
    for start in stride(from: 0, to: bytes.count, by: 16_000) {
        let piece = bytes[start..<min(start + 16_000, bytes.count)]
        try await eventually("a free block") {
            switch piece.withUnsafeBytes({ writer.append($0.baseAddress!, $0.count) }) {
            case .taken: return true
            case .starved: return false
            case .failed(let error): throw error
            }
        }
    }
}

/// What is in a file, from the start.
func contents(_ descriptor: Int32) -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: Int(lseek(descriptor, 0, Int32(SEEK_END))))
    _ = pread(descriptor, &bytes, bytes.count, 0)
    return bytes
}

/// The error that `body` throws.
func transferError<T>(_ body: () async throws(TransferError) -> T) async -> TransferError? {
    do {
        _ = try await body()
        return nil
    } catch {
        return error
    }
}

/// Starts the request and collects its body.
func fetch(_ engine: TransferEngine, _ request: Request, limit: Int = 1 << 24) async throws(TransferError) -> [UInt8] {
    try await engine.start(request).collect(limit: limit)
}

extension TransferError {
    var code: ErrorCode? { if case .failed(let failure) = self { failure.code } else { nil } }
    var message: String? { if case .failed(let failure) = self { failure.message } else { nil } }
}

extension TransferEnd {
    /// From offset 0.
    init(_ bytes: Int64, _ reason: Reason, isOverlong: Bool = false) {
        self.init(position: bytes, bytes: bytes, reason: reason, isOverlong: isOverlong)
    }
}
