import CHaulLinux
import Glibc
import HaulExecutors
import HaulTerminal
import Synchronization

/// The records of downloads, for this and later runs of `haul get`, and the locks that keep two of them from the same one.
///
/// All records are in one file (`JournalFile`), since a file for each costs more than a small download itself. A record is
/// written after the bytes that it tells of are durable. If it is lost, a download begins anew: it is never wrong. No call
/// blocks the caller's thread.
final class Journal: Sendable {
    /// `$XDG_STATE_HOME/haul/get`, only for its owner.
    let directory: String
    private let pool = BlockingPool(name: "journal", limit: 1)
    /// Used by the thread of `pool` alone.
    private let file: Mutex<JournalFile>
    private let gathered = Mutex(Gathered())

    /// Lines that wait for the next write. Those of many downloads go out in one.
    private struct Gathered {
        var text: [UInt8] = []
        var isDurable = false
        var waiting: [CheckedContinuation<Void, Never>] = []
    }

    /// The user's own. Throws `.usage` with a sentence if its directory cannot be made.
    convenience init() throws {
        let places = [
            Environment.text("XDG_STATE_HOME"), Environment.text("HOME").map { $0 + "/.local/state" },
            getpwuid(getuid()).map { String(cString: $0.pointee.pw_dir) + "/.local/state" },
        ]
        // Relative ones are to be ignored, says the XDG specification; /tmp would be anybody's.
        guard let home = places.compactMap(\.self).first(where: { $0.hasPrefix("/") }) else {
            throw ExitStatus.because(.usage, "there is no home directory: set XDG_STATE_HOME to a directory of yours")
        }
        try self.init(in: home + "/haul/get")
    }

    /// - Parameter room: Bytes of the file from which on it is kept short.
    init(in directory: String, room: Int = 1 << 20) throws {
        self.directory = directory
        file = Mutex(JournalFile(in: directory, room: room))
        GetPlace.makeDirectories(directory, mode: 0o700)
        guard access(directory, W_OK) == 0 else {
            throw ExitStatus.because(
                .usage,
                "\(directory) cannot be written (\(String(cString: strerror(errno)))): set XDG_STATE_HOME to a directory that can"
            )
        }
    }

    private func visit<T: Sendable>(_ body: @escaping @Sendable (inout JournalFile) -> T) async -> T {
        await pool.run { self.file.withLock { body(&$0) } }
    }

    // MARK: Locks

    /// Held while a download is at work; it ends with its last reference, and with its process.
    final class Lock: Sendable {
        private let descriptor: Int32

        fileprivate init(owning descriptor: Int32) { self.descriptor = descriptor }

        deinit {
            clinux_unlock_bytes(descriptor)
            close(descriptor)
        }
    }

    /// nil while another run, or another download of this one, has it.
    func lock(_ key: String) async -> Lock? { await pool.run { self.lockNow(key) } }

    /// The lock, and what is recorded of the download. nil while another one has it.
    func claim(_ key: String) async -> (lock: Lock, record: GetRecord?)? {
        await visit { file in self.lockNow(key).map { ($0, file.record(key)) } }
    }

    /// Blocks.
    private func lockNow(_ key: String) -> Lock? {
        let descriptor = open(directory + "/lock", O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { return nil }
        // One byte for each: 60 bits of the key. A file system that knows no locks gives none.
        let position = off_t(key.prefix(15), radix: 16) ?? 0
        let code = clinux_lock_byte(descriptor, position)
        guard code == EAGAIN || code == EACCES else { return Lock(owning: descriptor) }
        close(descriptor)
        return nil
    }

    // MARK: Records

    func read(_ key: String) async -> GetRecord? { await visit { $0.record(key) } }

    /// - Parameter isDurable: It outlives a loss of power.
    func write(_ record: GetRecord, isDurable: Bool) async { await append(record.text, isDurable: isDurable) }

    func remove(_ key: String) async { await append(JournalFile.removal(of: key), isDurable: false) }

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

    /// Those of downloads that have begun and not ended, whoever is at work on them.
    func unended() async -> [GetRecord] {
        await visit { file in file.openRecords().sorted { ($0.root, $0.key) < ($1.root, $1.key) } }
    }

    /// Removes all of it, and the directory.
    func removeAll() {
        for name in JournalFile.names(in: directory) { unlink("\(directory)/\(name)") }
        rmdir(directory)
    }
}
