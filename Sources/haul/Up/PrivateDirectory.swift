import CHaulLinux
import Glibc
import HaulContract
import HaulTerminal
import HaulWeb

/// The directory `.haul` of a root, where `haul up` keeps the data of its Redis, its password and its lock. Jobs cannot
/// reach it, because no job may name a file that begins with `.haul`.
struct PrivateDirectory {
    let root: String
    let path: String
    /// The password of the page, and of Redis if it has a port.
    let password: String
    /// The descriptor that holds the lock.
    private let lock: Int32

    /// Makes the directory, locks it, and reads the password or chooses one.
    ///
    /// - Throws: `ExitStatus`; the reason has been printed.
    init(root text: String) throws {
        try Self.make(text, mode: 0o755, parents: true)
        guard let resolved = realpath(text, nil) else { throw Self.failure(text) }
        root = String(cString: resolved)
        free(resolved)
        path = root + "/.haul"
        try Self.make(path, mode: 0o700)
        try Self.checkOwner(of: path)
        try Self.checkSocketPath(below: path)
        try Self.make(path + "/redis", mode: 0o700)
        lock = open(path + "/lock", O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard lock >= 0 else { throw Self.failure(path + "/lock") }
        guard clinux_lock_bytes(lock, 0, 1) == 0 else {
            throw ExitStatus.printing(.usage, "another haul up serves \(root): end it first, or give another --root")
        }
        if let known = SettingsFile.text(of: path + "/password").map(SettingsFile.trimmed), !known.isEmpty {
            password = known
        } else {
            password = Self.newPassword()
            try write(password + "\n", to: "password")
        }
        try writeAccounts()
    }

    /// Makes the accounts of the page have the password, whatever has become of either file. Further accounts
    /// stay.
    private func writeAccounts() throws {
        let prefix = "\(Self.user) operator "
        var lines = (SettingsFile.text(of: accounts) ?? "").split(separator: "\n").map(String.init)
        let own = lines.firstIndex { $0.hasPrefix(prefix) }
        if let own, PasswordHash(String(lines[own].dropFirst(prefix.count)))?.matches(password) == true { return }
        lines.removeAll { $0.hasPrefix("\(Self.user) ") }
        lines.insert(prefix + PasswordHash(password: password).text, at: 0)
        try write(lines.joined(separator: "\n") + "\n", to: "web.auth")
    }

    /// The user of the page, who is an operator.
    static let user = "admin"

    /// The file of accounts for `haul web --auth`.
    var accounts: String { path + "/web.auth" }

    var socket: String { path + "/redis.sock" }

    /// Where the worker and the page say that they are ready.
    var readiness: String { path + "/ready.sock" }

    /// Refuses a directory that another user has made or can change: its password and its data would be theirs.
    private static func checkOwner(of path: String) throws {
        var status = stat()
        guard lstat(path, &status) == 0 else { throw failure(path) }
        guard status.st_mode & S_IFMT == S_IFDIR, status.st_uid == geteuid(), status.st_mode & 0o077 == 0 else {
            throw ExitStatus.printing(
                .usage,
                "\(path) must be a directory of this user that no other user can enter: see who made it, then "
                    + "chmod 700 it or give another --root")
        }
    }

    /// The maximum path of a unix socket (unix(7)), without its final NUL.
    private static let maxSocketPath = MemoryLayout.size(ofValue: sockaddr_un().sun_path) - 1

    private static func checkSocketPath(below path: String) throws {
        // In the URL of a unix socket the query begins there.
        guard !path.contains("?") else {
            throw ExitStatus.printing(.usage, "\(path) must not have a ? in its name: give another --root")
        }
        let socket = path + "/redis.sock"
        let length = socket.utf8.count
        guard length <= maxSocketPath else {
            throw ExitStatus.printing(
                .usage,
                "\(socket) has \(length) bytes, and the path of a socket at most \(maxSocketPath): give a --root "
                    + "with a shorter path")
        }
    }

    /// Writes a file that only its owner can read.
    func write(_ text: String, to name: String) throws {
        let (file, temporary) = (path + "/" + name, path + "/" + name + ".new")
        unlink(temporary)
        let descriptor = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw Self.failure(temporary) }
        let bytes = Array(text.utf8)
        let isWritten = Glibc.write(descriptor, bytes, bytes.count) == bytes.count && fsync(descriptor) == 0
        close(descriptor)
        guard isWritten, rename(temporary, file) == 0 else { throw Self.failure(file) }
    }

    /// Four groups of five letters and digits, without those that look alike: 100 bits.
    private static func newPassword() -> String {
        let alphabet = Array("abcdefghijkmnpqrstuvwxyz23456789")
        let letters = Random.bytes(20).map { alphabet[Int($0) % alphabet.count] }
        return stride(from: 0, to: 20, by: 5).map { String(letters[$0..<($0 + 5)]) }.joined(separator: "-")
    }

    private static func make(_ path: String, mode: mode_t, parents: Bool = false) throws {
        if parents, let slash = path.lastIndex(of: "/"), slash > path.startIndex, access(path, F_OK) != 0 {
            try make(String(path[..<slash]), mode: mode, parents: true)
        }
        guard mkdir(path, mode) == 0 || errno == EEXIST else { throw failure(path) }
    }

    private static func failure(_ path: String) -> ExitStatus {
        ExitStatus.printing(.usage, "\(path): \(String(cString: strerror(errno)))")
    }
}
