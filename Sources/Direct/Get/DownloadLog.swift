import CHaulLinux
import Glibc
import HaulExecutors
import HaulTerminal
import Synchronization

/// The records of downloads, for this and later runs of `haul get`, and locks, so that no two runs work on the same
/// download.
///
/// All records are in one file (`DownloadLogFile`): a file for each record would cost more than a small download
/// itself. A record is written after the bytes that it describes are durable. If a record is lost, its download
/// restarts. The `async` methods do not block the caller's thread.
final class DownloadLog: Sendable {
    /// `$XDG_STATE_HOME/haul/get`, only for its owner.
    let directory: String
    private let pool = BlockingPool(name: "download log", limit: 1)
    private let hasWarned = Atomic(false)
    /// Only the thread of `pool` uses it.
    private let file: Mutex<DownloadLogFile>
    private let gathered = Mutex(Gathered())

    private let locks: Locks

    private struct Claiming: Sendable {
        let key: String
        let path: String?
        let root: String
        let initial: GetRecord?
        let continuation: CheckedContinuation<Claim?, Never>

        /// Whether a download has completed the file.
        func isFileKnown(_ file: borrowing DownloadLogFile) -> Bool {
            path.map { file.hasOwner(of: GetRecord.fileKey(of: $0, in: root)) } ?? false
        }
    }

    /// Claims, and lines that wait for the next write. One turn of the thread, with one read and one write, serves all
    /// downloads that have asked meanwhile (group commit).
    private struct Gathered {
        var claims: [Claiming] = []
        var text: [UInt8] = []
        var isDurable = false
        var waiting: [CheckedContinuation<Void, Never>] = []
    }

    /// The download log of this user.
    ///
    /// - Throws: `ExitStatus.usage` if its directory cannot be made; the reason has been printed.
    convenience init() throws {
        let candidates = [
            { Environment.text("XDG_STATE_HOME") }, { Environment.text("HOME").map { $0 + "/.local/state" } },
            { getpwuid(getuid()).map { String(cString: $0.pointee.pw_dir) + "/.local/state" } },
        ]
        // The XDG specification says to ignore relative paths. /tmp is not a fallback because all users can write
        // there.
        guard let home = candidates.lazy.compactMap({ $0() }).first(where: { $0.hasPrefix("/") }) else {
            throw ExitStatus.printing(.usage, "there is no home directory: set XDG_STATE_HOME to a directory of yours")
        }
        try self.init(in: home + "/haul/get")
    }

    /// - Parameter maxBytes: The size in bytes above which the file is compacted.
    init(in directory: String, maxBytes: Int = 1 << 20) throws {
        self.directory = directory
        file = Mutex(DownloadLogFile(in: directory, maxBytes: maxBytes))
        GetTarget.makeDirectories(directory, mode: 0o700)
        locks = Locks(directory + "/lock")
        // The locks are a file of their own, which another user may have made: `sudo -E`.
        guard access(directory, W_OK) == 0, locks.isOpen else {
            throw ExitStatus.printing(
                .usage,
                "\(directory) cannot be written (\(String(cString: strerror(errno)))): set XDG_STATE_HOME to a directory that can"
            )
        }
    }

    private func visit<T: Sendable>(_ body: @escaping @Sendable (inout DownloadLogFile) -> T) async -> T {
        await pool.run { self.file.withLock { body(&$0) } }
    }

    // MARK: Locks

    /// The lock on a download that runs. It is released with its last reference, and when the process ends.
    final class Lock: Sendable {
        private let locks: Locks
        private let position: off_t

        fileprivate init(_ locks: Locks, _ position: off_t) { (self.locks, self.position) = (locks, position) }

        deinit { locks.release(position) }
    }

    /// The locks that this process holds. All are on one descriptor, which the kernel cannot tell apart, so a second
    /// lock of this process on one download is refused here.
    fileprivate final class Locks: Sendable {
        private let descriptor: Int32
        private let held = Mutex<Set<off_t>>([])

        /// Keeps `errno` if the file cannot be opened.
        init(_ path: String) { descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600) }

        deinit { if isOpen { close(descriptor) } }

        var isOpen: Bool { descriptor >= 0 }

        /// False if another process, or this one, holds the lock. Blocks.
        func acquire(_ position: off_t) -> Bool {
            held.withLock { held in
                guard held.insert(position).inserted else { return false }
                // On a file system without locks all callers go on without one.
                let code = clinux_lock_bytes(descriptor, position, 1)
                guard code == EAGAIN || code == EACCES else { return true }
                held.remove(position)
                return false
            }
        }

        func release(_ position: off_t) {
            held.withLock { held in
                clinux_unlock_bytes(descriptor, position, 1)
                held.remove(position)
            }
        }
    }

    /// nil while another process, or another download of this process, has the lock.
    func lock(_ key: String) async -> Lock? { await pool.run { self.lockNow(key) } }

    /// Blocks the calling thread.
    private func lockNow(_ key: String) -> Lock? {
        // Each download locks a byte of its own, at the offset that 60 bits of the key give.
        let position = off_t(key.prefix(15), radix: 16) ?? 0
        return locks.acquire(position) ? Lock(locks, position) : nil
    }

    // MARK: Claims

    /// A download that no other run works on.
    struct Claim: Sendable {
        let lock: Lock
        /// What earlier runs have recorded of the download.
        let record: GetRecord?
        /// Nothing was known of the download and its file, and the claim has written its initial record.
        var isBegun = false
    }

    /// The lock and the record of a download. nil while the lock is held elsewhere.
    func claim(_ key: String) async -> Claim? { await claim(key, file: nil, in: "", initial: nil) }

    /// Does the same, and writes the initial record of a download of which nothing is known.
    ///
    /// - Parameters:
    ///   - path: The file that the download is likely to complete, in `root`; nil if that is not known.
    ///   - initial: Written unless there is a record of the download, or of another one that completed the file.
    func claim(_ key: String, file path: String?, in root: String, initial: GetRecord?) async -> Claim? {
        await withCheckedContinuation { continuation in
            gather {
                $0.claims.append(
                    Claiming(key: key, path: path, root: root, initial: initial, continuation: continuation))
            }
        }
    }

    // MARK: Records

    func read(_ key: String) async -> GetRecord? { await visit { $0.record(key) } }

    /// The record of the download that completed the file at `path` in `root`, if no other download has since. Whether
    /// the file is still the same has to be checked.
    func owner(of path: String, in root: String) async -> GetRecord? {
        let file = GetRecord.fileKey(of: path, in: root)
        return await visit { $0.owner(of: file) }
    }

    /// - Parameter isDurable: Sync the record, so that it survives a loss of power.
    func write(_ record: GetRecord, isDurable: Bool) async { await append(record.text, isDurable: isDurable) }

    func remove(_ key: String) async { await append(DownloadLogFile.removal(of: key), isDurable: false) }

    private func append(_ line: String, isDurable: Bool) async {
        await withCheckedContinuation { continuation in
            gather { gathered in
                gathered.text += line.utf8
                gathered.text.append(UInt8(ascii: "\n"))
                gathered.isDurable = gathered.isDurable || isDurable
                gathered.waiting.append(continuation)
            }
        }
    }

    private func gather(_ add: (inout Gathered) -> Void) {
        let isFirst = gathered.withLock { gathered in
            defer { add(&gathered) }
            return gathered.claims.isEmpty && gathered.waiting.isEmpty
        }
        if isFirst { pool.submit { self.processGathered() } }
    }

    /// Blocks the calling thread.
    private func processGathered() {
        var gathered = gathered.withLock { exchange(&$0, with: Gathered()) }
        // A record of another run counts if it was written before that run released its lock.
        let locks = gathered.claims.map { lockNow($0.key) }
        let claims = file.withLock { file in
            if locks.contains(where: { $0 != nil }) { file.catchUp() }
            var claims: [Claim?] = []
            for (claiming, lock) in zip(gathered.claims, locks) {
                var claim = lock.map { Claim(lock: $0, record: file.known(claiming.key)) }
                if claim != nil, claim?.record == nil, let initial = claiming.initial, !claiming.isFileKnown(file) {
                    gathered.text += initial.text.utf8
                    gathered.text.append(UInt8(ascii: "\n"))
                    claim?.isBegun = true
                }
                claims.append(claim)
            }
            if !gathered.text.isEmpty { warn(of: file.append(gathered.text, isDurable: gathered.isDurable)) }
            return claims
        }
        for (claiming, claim) in zip(gathered.claims, claims) { claiming.continuation.resume(returning: claim) }
        for continuation in gathered.waiting { continuation.resume() }
    }

    /// Says once that downloads are not recorded. They go on, because most of them need no record.
    private func warn(of code: Int32) {
        guard code != 0, !hasWarned.exchange(true, ordering: .relaxed) else { return }
        Terminal.printError(
            "haul: the list of downloads in \(directory) cannot be written (\(String(cString: strerror(code)))): what is "
                + "interrupted now starts again, and leaves its hidden file")
    }

    /// The records of downloads that have begun and not ended, also of those that run in another process.
    func unended() async -> [GetRecord] {
        await visit { file in file.records(areOpen: true).sorted { ($0.root, $0.key) < ($1.root, $1.key) } }
    }

    /// The records of downloads that have ended.
    func ended() async -> [GetRecord] { await visit { file in file.records(areOpen: false) } }

    /// Removes all files of the log, and its directory. Blocks.
    func removeAll() {
        for name in DownloadLogFile.names(in: directory) { unlink("\(directory)/\(name)") }
        rmdir(directory)
    }
}
