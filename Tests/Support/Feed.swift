package import HaulHTTP

/// Writes bytes to a sink in pieces of at most 16,000 bytes, which are as large as libcurl's. If the sink has no memory
/// for a piece, waits for at most `patience`.
package func feed(_ bytes: [UInt8], to sink: any BodySink, patience: Duration = .seconds(20)) async throws {
    for start in stride(from: 0, to: bytes.count, by: 16_000) {
        let piece = bytes[start..<min(start + 16_000, bytes.count)]
        try await eventually("memory in the sink", within: patience) {
            switch piece.withUnsafeBytes({ sink.append($0.baseAddress!, $0.count) }) {
            case .accepted: return true
            case .wait: return false
            case .failed(let error): throw error
            }
        }
    }
}
