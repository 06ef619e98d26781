import CHaulLinux
import Glibc
import HaulExecutors

/// The records of downloads, for this and later runs of `haul get`, and the locks that keep two of them from the same one.
///
/// A record is a line behind the earlier ones of its download, and the last whole line counts: to append costs a fraction of what a
/// rename over a file does. It is written after the bytes that it tells of are durable. If it is lost, a download begins anew: it is
/// never wrong. No call blocks the caller's thread.
final class Journal: Sendable {
    /// `$XDG_STATE_HOME/haul/get`, only for its owner.
    let directory: String
    private let pool = BlockingPool(name: "journal", limit: 2)

    /// The user's own. Throws `.usage` with a sentence if its directory cannot be made.
    convenience init() throws {
        let places = [
            CommonOptions.environment("XDG_STATE_HOME"), CommonOptions.environment("HOME").map { $0 + "/.local/state" },
            getpwuid(getuid()).map { String(cString: $0.pointee.pw_dir) + "/.local/state" },
        ]
        // Relative ones are to be ignored, says the XDG specification; /tmp would be anybody's.
        guard let home = places.compactMap(\.self).first(where: { $0.hasPrefix("/") }) else {
            throw ExitStatus.because(.usage, "there is no home directory: set XDG_STATE_HOME to a directory of yours")
        }
        try self.init(in: home + "/haul/get")
    }

    init(in directory: String) throws {
        self.directory = directory
        GetPlace.makeDirectories(directory, mode: 0o700)
        guard access(directory, W_OK) == 0 else {
            throw ExitStatus.because(
                .usage,
                "\(directory) cannot be written (\(String(cString: strerror(errno)))): set XDG_STATE_HOME to a directory that can"
            )
        }
    }

    // MARK: Locks

    /// Held while a download is at work; it ends with its last reference, and with its process.
    final class Lock: Sendable {
        private let descriptor: Int32

        fileprivate init(owning descriptor: Int32) { self.descriptor = descriptor }

        deinit { close(descriptor) }
    }

    /// nil while another run, or another download of this one, has it.
    func lock(_ key: String) async -> Lock? {
        await pool.run { [directory] in
            let descriptor = open(directory + "/lock", O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
            guard descriptor >= 0 else { return nil }
            // One byte for each: 60 bits of the key. A file system that knows no locks gives none.
            let position = off_t(key.prefix(15), radix: 16) ?? 0
            let code = clinux_lock_byte(descriptor, position)
            guard code == EAGAIN || code == EACCES else { return Lock(owning: descriptor) }
            close(descriptor)
            return nil
        }
    }

    // MARK: Records

    func read(_ key: String) async -> GetRecord? { await pool.run { self.readNow(key + Self.suffix) } }

    /// - Parameter isDurable: It outlives a loss of power.
    func write(_ record: GetRecord, isDurable: Bool) async {
        await pool.run { [directory] in
            let path = "\(directory)/\(record.key)\(Self.suffix)"
            let descriptor = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0o600)
            guard descriptor >= 0 else { return }
            let length = lseek(descriptor, 0, SEEK_END)
            // A line that was cut off ends here at the latest.
            if length < Self.longest {
                Self.write((length > 0 ? "\n" : "") + record.text, to: descriptor, isDurable: isDurable)
                return
            }
            close(descriptor)
            let temporary = path + ".new"
            let fresh = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
            guard fresh >= 0 else { return }
            if Self.write(record.text, to: fresh, isDurable: isDurable) {
                rename(temporary, path)
            } else {
                unlink(temporary)
            }
        }
    }

    /// Writes `text`, and closes. Whether all of it is there.
    @discardableResult
    private static func write(_ text: String, to descriptor: Int32, isDurable: Bool) -> Bool {
        defer { close(descriptor) }
        let bytes = Array(text.utf8)
        return Glibc.write(descriptor, bytes, bytes.count) == bytes.count && (!isDurable || fdatasync(descriptor) == 0)
    }

    func remove(_ key: String) async {
        await pool.run { [directory] in _ = unlink("\(directory)/\(key)\(Self.suffix)") }
    }

    /// Those of downloads that have begun and not ended, whoever is at work on them. Forgets what is older than a month.
    func unended() async -> [GetRecord] {
        await pool.run { [directory] in
            var found: [GetRecord] = []
            for name in self.names() where name.hasSuffix(Self.suffix) || name.hasSuffix(".new") {
                let record = name.hasSuffix(Self.suffix) ? self.readNow(name) : nil
                if record?.isOpen == true {
                    found += [record].compactMap(\.self)
                } else if self.isOld(name) {
                    unlink("\(directory)/\(name)")
                }
            }
            return found.sorted { ($0.root, $0.key) < ($1.root, $1.key) }
        }
    }

    /// Removes all of it, and the directory.
    func removeAll() {
        for name in names() { unlink("\(directory)/\(name)") }
        rmdir(directory)
    }

    private func names() -> [String] {
        guard let stream = opendir(directory) else { return [] }
        defer { closedir(stream) }
        var names: [String] = []
        while let entry = readdir(stream) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) {
                $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            if name != ".", name != ".." { names.append(name) }
        }
        return names
    }

    private static let suffix = ".json"
    private static let longestAge = 30 * 86_400
    /// Bytes of a file to which no more lines are appended.
    private static let longest = 64 << 10

    private func isOld(_ name: String) -> Bool {
        var status = stat()
        return stat("\(directory)/\(name)", &status) == 0 && status.st_mtim.tv_sec < time(nil) - Self.longestAge
    }

    /// Blocks.
    private func readNow(_ name: String) -> GetRecord? {
        let descriptor = Glibc.open("\(directory)/\(name)", O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        var bytes: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 16 << 10)
        while case let count = Glibc.read(descriptor, &piece, piece.count), count > 0 { bytes += piece[..<count] }
        return bytes.split(separator: UInt8(ascii: "\n")).reversed().lazy.compactMap { GetRecord(Array($0)) }.first
    }
}
