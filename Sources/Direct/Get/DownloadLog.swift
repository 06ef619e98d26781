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
    private let pool = BlockingPool(name: "journal", limit: 1)
    /// Only the thread of `pool` uses it.
    private let file: Mutex<DownloadLogFile>
    private let gathered = Mutex(Gathered())

    /// Lines that wait for the next write. One write takes the lines of all downloads (group commit).
    private struct Gathered {
        var text: [UInt8] = []
        var isDurable = false
        var waiting: [CheckedContinuation<Void, Never>] = []
    }

    /// The journal of this user.
    ///
    /// - Throws: `ExitStatus.usage` if its directory cannot be made; the reason has been printed.
    convenience init() throws {
        let places = [
            Environment.text("XDG_STATE_HOME"), Environment.text("HOME").map { $0 + "/.local/state" },
            getpwuid(getuid()).map { String(cString: $0.pointee.pw_dir) + "/.local/state" },
        ]
        // The XDG specification says to ignore relative paths. /tmp is not a fallback because all users can write
        // there.
        guard let home = places.compactMap(\.self).first(where: { $0.hasPrefix("/") }) else {
            throw ExitStatus.printing(.usage, "there is no home directory: set XDG_STATE_HOME to a directory of yours")
        }
        try self.init(in: home + "/haul/get")
    }

    /// - Parameter maxBytes: The size in bytes above which the file is compacted.
    init(in directory: String, maxBytes: Int = 1 << 20) throws {
        self.directory = directory
        file = Mutex(DownloadLogFile(in: directory, maxBytes: maxBytes))
        GetTarget.makeDirectories(directory, mode: 0o700)
        guard access(directory, W_OK) == 0 else {
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
        private let descriptor: Int32

        fileprivate init(owning descriptor: Int32) { self.descriptor = descriptor }

        deinit {
            clinux_unlock_bytes(descriptor)
            close(descriptor)
        }
    }

    /// nil while another process, or another download of this process, has the lock.
    func lock(_ key: String) async -> Lock? { await pool.run { self.lockNow(key) } }

    /// The lock and the record of a download. nil while the lock is held elsewhere.
    func claim(_ key: String) async -> (lock: Lock, record: GetRecord?)? {
        await visit { file in self.lockNow(key).map { ($0, file.record(key)) } }
    }

    /// Blocks.
    private func lockNow(_ key: String) -> Lock? {
        let descriptor = open(directory + "/lock", O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { return nil }
        // Each download locks a byte of its own, at the offset that 60 bits of the key give. On a file system without
        // locks all callers go on without one.
        let position = off_t(key.prefix(15), radix: 16) ?? 0
        let code = clinux_lock_bytes(descriptor, position, 1)
        guard code == EAGAIN || code == EACCES else { return Lock(owning: descriptor) }
        close(descriptor)
        return nil
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
            let isFirst = gathered.withLock { gathered in
                gathered.text += line.utf8
                gathered.text.append(UInt8(ascii: "\n"))
                gathered.isDurable = gathered.isDurable || isDurable
                gathered.waiting.append(continuation)
                return gathered.waiting.count == 1
            }
            if isFirst { pool.submit { self.writeGathered() } }
        }
    }

    /// Blocks.
    private func writeGathered() {
        let gathered = gathered.withLock { exchange(&$0, with: Gathered()) }
        file.withLock { $0.append(gathered.text, isDurable: gathered.isDurable) }
        for continuation in gathered.waiting { continuation.resume() }
    }

    /// The records of downloads that have begun and not ended, also of those that run in another process.
    func unended() async -> [GetRecord] {
        await visit { file in file.records(areOpen: true).sorted { ($0.root, $0.key) < ($1.root, $1.key) } }
    }

    /// The records of downloads that have ended.
    func ended() async -> [GetRecord] { await visit { file in file.records(areOpen: false) } }

    /// Removes all files of the journal, and its directory. Blocks.
    func removeAll() {
        for name in DownloadLogFile.names(in: directory) { unlink("\(directory)/\(name)") }
        rmdir(directory)
    }
}
