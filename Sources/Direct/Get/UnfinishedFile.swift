import Glibc
import HaulContract
import HaulExecutors
import HaulHTTP
import HaulStorage

/// What another program left of a download under its final name: aria2 with a control file beside it, curl, wget and
/// browsers as the first bytes.
///
/// Nothing tells of which version the bytes are. So they are continued only if a checksum proves the whole, and they stay where
/// they are until it has.
struct UnfinishedFile: Sendable {
    /// As it was found: the finished file replaces it, unless somebody has written to it since.
    let file: CompletedFile
    /// The bytes that are there.
    let written: ByteIntervals
    /// What the server has.
    let entity: Entity
    let source: String

    /// Copies the bytes into a partial file of our own, and returns where a run may go on.
    ///
    /// - Throws: What keeps them from being copied. Nothing is left then.
    func copy(
        to partial: any Partial, from root: String, in store: any Store
    ) async throws(TransferError) -> ResumePoint {
        try await partial.open(total: entity.total, hashing: nil, with: [])
        do throws(TransferError) {
            for range in written.intervals { try await copy(range, of: root + "/" + file.file, to: partial) }
            guard let checkpoint = try await partial.checkpoint(isLast: true) else { throw .cancelled }
            return ResumePoint(
                generation: partial.generation, store: store.id, file: file.file, entity: entity, source: source,
                offsets: checkpoint.offsets, blockChecks: checkpoint.blockChecks, journal: checkpoint.journal)
        } catch {
            await partial.discard(soon: false)
            throw error
        }
    }

    private func copy(_ range: Range<Int64>, of path: String, to partial: any Partial) async throws(TransferError) {
        let (wakes, continuation) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        var turns = wakes.makeAsyncIterator()
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
                case .taken: rest = rest.dropFirst(part.count)
                case .wait: await turns.next()
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
        await StandingFile.pool.run {
            let descriptor = open(path, O_RDONLY | O_CLOEXEC)
            guard descriptor >= 0 else { return nil }
            defer { close(descriptor) }
            return [UInt8](unsafeUninitializedCapacity: count) { buffer, filled in
                filled = max(0, pread(descriptor, buffer.baseAddress, count, off_t(offset)))
            }
        }
    }
}
