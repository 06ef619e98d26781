import HaulContract
import HaulHTTP
import HaulStorage

/// The body of an upload: texts and ranges of files, one after the other. Only the chunks to be sent next are in memory.
struct UploadBody: BodySupply {
    enum Piece: Sendable {
        case bytes([UInt8])
        case file(any SourceFile, Range<Int64>)

        var count: Int64 {
            switch self {
            case .bytes(let bytes): Int64(bytes.count)
            case .file(_, let range): Int64(range.count)
            }
        }

        /// Bytes of one read.
        var readSize: Int64 {
            switch self {
            case .bytes(let bytes): Int64(bytes.count)
            case .file(let file, _): file.readSize
            }
        }

        /// The ranges in which the whole piece is read.
        var readRanges: [Range<Int64>] {
            stride(from: 0, to: count, by: Int64.Stride(max(1, readSize))).map { $0..<min($0 + readSize, count) }
        }

        /// Reads a range of the piece. After a file's last bytes it checks that the file has not changed.
        ///
        /// - Throws: `source_changed` if the file has changed.
        func read(_ range: Range<Int64>) async throws(TransferError) -> [UInt8] {
            switch self {
            case .bytes(let bytes): return Array(bytes[Int(range.lowerBound)..<Int(range.upperBound)])
            case .file(let file, let whole):
                let start = whole.lowerBound
                let bytes = try await file.read(start + range.lowerBound..<start + range.upperBound)
                if range.upperBound == count { try await file.check() }
                return bytes
            }
        }
    }

    let pieces: [Piece]
    /// The executor of the task that reads chunks ahead.
    let executor: any TaskExecutor

    var count: Int64 { pieces.reduce(0) { $0 + $1.count } }

    // MARK: BodySupply

    var length: Int64? { count }

    func source(wake: @escaping @Sendable () async -> Void) -> any BodySource {
        UploadSource(pieces, executor: executor, wake: wake)
    }

    // MARK: Digests

    /// Reads the whole body.
    func digest(_ algorithm: Job.Checksum.Algorithm) async throws(TransferError) -> [UInt8] {
        let digest = StreamDigest(algorithm)
        for piece in pieces {
            for range in piece.readRanges {
                if Task.isCancelled { throw .cancelled }
                digest.update(try await piece.read(range))
            }
        }
        return digest.bytes()
    }
}

extension Job.Upload.Digest {
    var algorithm: Job.Checksum.Algorithm {
        switch self {
        case .sha256: .sha256
        case .sha512: .sha512
        }
    }
}
