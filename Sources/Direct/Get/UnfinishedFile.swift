import Glibc
import HaulContract
import HaulExecutors
import HaulHTTP
import HaulStorage

/// A download that another program left unfinished under its final name. aria2 leaves a control file beside it; curl,
/// wget and browsers leave the first bytes.
///
/// Nothing says which version of the file these bytes are from. So they are used only if a checksum can prove the whole
/// file, and the old file stays until the checksum has been verified.
struct UnfinishedFile: Sendable {
    /// The file as it was found. The completed file replaces it, unless another program has written to it since.
    let file: CompletedFile
    /// The ranges of bytes that have been written.
    let written: ByteIntervals
    /// What the server has.
    let entity: Entity
    /// The masked URL of the download.
    let source: String

    /// Copies the bytes into a partial file, and returns the checkpoint from which a run can continue.
    ///
    /// - Throws: The error of the copy. The partial file has then been removed.
    func copy(
        to partial: any Partial, from root: String, in store: any Store
    ) async throws(TransferError) -> ResumePoint {
        try await partial.open(total: entity.total, hashing: nil, with: [])
        do throws(TransferError) {
            for range in written.intervals { try await copy(range, of: root + "/" + file.file, to: partial) }
            guard let checkpoint = try await partial.checkpoint(isLast: true) else { throw .cancelled }
            return ResumePoint(
                generation: partial.generation, store: store.id, file: file.file, entity: entity, source: source,
                offsets: checkpoint.offsets, blockChecks: checkpoint.blockChecks, storeState: checkpoint.storeState)
        } catch {
            await partial.discard(soon: false)
            throw error
        }
    }

    private func copy(_ range: Range<Int64>, of path: String, to partial: any Partial) async throws(TransferError) {
        let (wakeUps, continuation) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        var wakeUp = wakeUps.makeAsyncIterator()
        let sink = partial.sink(at: range.lowerBound) {
            continuation.yield()
            return true
        }
        var position = range.lowerBound
        while position < range.upperBound {
            let piece = await Self.read(path, at: position, Int(min(1 << 20, range.upperBound - position)))
            guard let piece, !piece.isEmpty, !Task.isCancelled else {
                sink.end()
                throw Task.isCancelled ? .cancelled : .failed(Failure(.io, "\(file.file) cannot be read any more"))
            }
            var rest = piece[...]
            while !rest.isEmpty {
                let part = rest.prefix(64 << 10)
                switch part.withUnsafeBytes({ sink.append($0.baseAddress!, $0.count) }) {
                case .accepted: rest = rest.dropFirst(part.count)
                case .wait: await wakeUp.next()
                case .failed(let error):
                    sink.end()
                    throw error
                }
            }
            position += Int64(piece.count)
        }
        try await sink.finish()
    }

    private static func read(_ path: String, at offset: Int64, _ count: Int) async -> [UInt8]? {
        await UnrecordedFile.pool.run {
            let descriptor = open(path, O_RDONLY | O_CLOEXEC)
            guard descriptor >= 0 else { return nil }
            defer { close(descriptor) }
            return [UInt8](unsafeUninitializedCapacity: count) { buffer, filled in
                filled = max(0, pread(descriptor, buffer.baseAddress, count, off_t(offset)))
            }
        }
    }
}
