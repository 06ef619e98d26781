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

    /// Whether the file `part` has the same bytes as the file `whole` in the ranges `written`. Blocks.
    static func isPart(_ written: ByteIntervals, of part: String, in whole: String) -> Bool {
        let (theirs, ours) = (open(part, O_RDONLY | O_CLOEXEC), open(whole, O_RDONLY | O_CLOEXEC))
        defer { for descriptor in [theirs, ours] where descriptor >= 0 { close(descriptor) } }
        guard theirs >= 0, ours >= 0 else { return false }
        for range in written.intervals {
            for start in stride(from: range.lowerBound, to: range.upperBound, by: 1 << 20) {
                let count = Int(min(1 << 20, range.upperBound - start))
                guard let bytes = read(theirs, at: start, count), bytes == read(ours, at: start, count) else {
                    return false
                }
            }
        }
        return true
    }

    /// Exactly `count` bytes.
    private static func read(_ descriptor: Int32, at offset: Int64, _ count: Int) -> [UInt8]? {
        let bytes = [UInt8](unsafeUninitializedCapacity: count) { buffer, filled in
            while filled < count {
                let position = off_t(offset) + off_t(filled)
                let read = pread(descriptor, buffer.baseAddress! + filled, count - filled, position)
                guard read > 0 else { return }
                filled += read
            }
        }
        return bytes.count == count ? bytes : nil
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
