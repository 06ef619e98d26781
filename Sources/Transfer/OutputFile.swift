import CLinux
import COpenSSL
package import Contract
import Executors
import Glibc

/// Whether a finished file must survive the loss of power, or only the death of processes.
package enum Durability: String, Sendable, CaseIterable { case disk, process }

/// A file that is written in blocks at offsets, by any number of transfers at once. It knows which bytes are written, and
/// a checkpoint says which of them are durable.
package final class OutputFile: Sendable {
    private struct State {
        var written = ByteIntervals()
        var queued = 0
        var error: Int32 = 0
    }

    private let descriptor: Int32
    /// Writes past the page cache: what costs most is filling it. -1 where the file system cannot.
    private let direct: Int32
    private let path: WritePath
    private let durability: Durability
    private let state: Monitor<State>

    /// Owns `descriptor`, open for reading and writing. `written` are the bytes that are durable already.
    package init(descriptor: Int32, path: WritePath, durability: Durability, written: ByteIntervals = ByteIntervals()) {
        self.descriptor = descriptor
        self.path = path
        self.durability = durability
        direct = clinux_reopen_direct(descriptor)
        state = Monitor(State(written: written))
    }

    deinit {
        if direct >= 0 { close(direct) }
        close(descriptor)
    }

    /// Bytes that have been handed to the kernel; durable or not.
    package var written: ByteIntervals { state.read { $0.written } }

    func submit(_ block: Block) {
        state.withLock { $0.queued += 1 }
        path.submit(block, to: self)
    }

    func giveBack(_ block: Block) { path.give(block) }

    func take(large: Bool) -> Block? { path.take(large: large) }

    /// The first error of a write, if there was one.
    var failure: TransferError? { state.read { $0.error == 0 ? nil : Self.error($0.error) } }

    /// On a writer's thread.
    func write(_ block: Block) {
        let isAligned = block.offset % Int64(Block.alignment) == 0 && block.count % Block.alignment == 0
        var error = put(block, to: isAligned && direct >= 0 ? direct : descriptor)
        // A file system may accept O_DIRECT and refuse the write.
        if error == EINVAL, isAligned, direct >= 0 { error = put(block, to: descriptor) }
        let range = block.offset..<(block.offset + Int64(block.count))
        path.give(block)
        state.withLock { state in
            state.queued -= 1
            if error == 0 { state.written.insert(range) } else if state.error == 0 { state.error = error }
        }
    }

    private func put(_ block: Block, to descriptor: Int32) -> Int32 {
        var done = 0
        while done < block.count {
            let count = pwrite(descriptor, block.bytes + done, block.count - done, off_t(block.offset) + off_t(done))
            if count > 0 { done += count } else if count == 0 { return EIO } else if errno != EINTR { return errno }
        }
        return 0
    }

    /// Reserves room for the file where the file system can; `.noSpace` if there is none.
    package func reserve(_ size: Int64) async throws(TransferError) {
        try await onFileThread { () throws(TransferError) in
            let code = clinux_reserve(self.descriptor, off_t(size))
            guard code == ENOSPC || code == EDQUOT || code == EFBIG else { return }
            throw Self.error(code)
        }
    }

    /// Syncs what is written and returns it: it is durable then (with `.process`: it survives this process). Bytes that
    /// arrive meanwhile count at the next checkpoint. A failed sync is never tried again: the pages may be lost and clean.
    package func checkpoint() async throws(TransferError) -> ByteIntervals {
        try await onFileThread { () throws(TransferError) in
            let written = self.written
            if let failure = self.failure { throw failure }
            try self.sync()
            return written
        }
    }

    /// Waits until all that was handed over is written; then as `checkpoint`.
    package func drain() async throws(TransferError) -> ByteIntervals {
        try await onFileThread { () throws(TransferError) in
            self.state.waitWhile({ $0.queued > 0 }, then: { _ in })
            if let failure = self.failure { throw failure }
            try self.sync()
            return self.written
        }
    }

    /// Cuts the file to `size`: a reservation must not stay.
    package func truncate(to size: Int64) async throws(TransferError) {
        try await onFileThread { () throws(TransferError) in
            guard ftruncate(self.descriptor, off_t(size)) == 0 else { throw Self.error(errno) }
        }
    }

    /// The hexadecimal digest of the first `size` bytes, read back.
    package func digest(_ algorithm: Job.Checksum.Algorithm, size: Int64) async throws(TransferError) -> String {
        try await onFileThread { () throws(TransferError) in
            let context = EVP_MD_CTX_new()
            defer { EVP_MD_CTX_free(context) }
            EVP_DigestInit_ex(context, algorithm.implementation, nil)
            let block = Block(size: Block.large)
            var position: Int64 = 0
            while position < size {
                let count = pread(self.descriptor, block.bytes, min(block.size, Int(size - position)), off_t(position))
                if count < 0, errno == EINTR { continue }
                guard count > 0 else { throw Self.error(count < 0 ? errno : EIO) }
                EVP_DigestUpdate(context, block.bytes, count)
                position += Int64(count)
            }
            var digest = [UInt8](repeating: 0, count: 64)
            var length: UInt32 = 0
            EVP_DigestFinal_ex(context, &digest, &length)
            return digest.prefix(Int(length)).map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
        }
    }

    private func sync() throws(TransferError) {
        guard durability == .disk else { return }
        guard fdatasync(descriptor) == 0 else {
            let code = errno
            state.withLock { $0.error = code }
            throw Self.error(code)
        }
    }

    private func onFileThread<T: Sendable>(
        _ body: @escaping @Sendable () throws(TransferError) -> T
    ) async throws(TransferError) -> T {
        try await path.blocking.run(body)
    }

    static func error(_ code: Int32) -> TransferError {
        switch code {
        case ENOSPC, EDQUOT: return .noSpace
        case EFBIG: return .failed(Failure(.tooLarge, "the file is larger than the file system takes"))
        case EROFS, EACCES, EPERM:
            return .failed(Failure(.permission, "the file cannot be written: \(String(cString: strerror(code)))"))
        default:
            return .failed(
                Failure(
                    .io, "writing failed: \(String(cString: strerror(code))); look at the disk and the system's log"))
        }
    }
}

extension Job.Checksum.Algorithm {
    fileprivate var implementation: OpaquePointer? {
        switch self {
        case .sha256: EVP_sha256()
        case .sha512: EVP_sha512()
        case .sha1: EVP_sha1()
        case .md5: EVP_md5()
        }
    }
}
