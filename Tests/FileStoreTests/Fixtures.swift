import HaulHTTP
import HaulStorage
import HaulTestSupport
import Testing

@testable import HaulFileStore

/// Appends in pieces of at most 16 KiB, as libcurl does, and waits for blocks when there are none.
func append(_ bytes: [UInt8], to writer: FileWriter) async throws {
    for start in stride(from: 0, to: bytes.count, by: 16_000) {
        let piece = bytes[start..<min(start + 16_000, bytes.count)]
        try await eventually("a free block") {
            switch piece.withUnsafeBytes({ writer.append($0.baseAddress!, $0.count) }) {
            case .taken: return true
            case .wait: return false
            case .failed(let error): throw error
            }
        }
    }
}
