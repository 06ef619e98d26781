import CHaulLinux
import Glibc
import HaulContract
import HaulHTTP

/// An open directory; closed with its last reference.
final class Directory: Sendable {
    let descriptor: Int32

    init(owning descriptor: Int32) { self.descriptor = descriptor }

    deinit { close(descriptor) }

    /// Opens the directory at `path` below this one. Missing directories are created and synced. No link may lead out.
    func openOrCreate(_ path: String) throws(TransferError) -> Directory {
        guard !path.isEmpty else { return self }
        let found = clinux_open_beneath(descriptor, path, O_RDONLY | O_DIRECTORY, 0)
        if found >= 0 { return Directory(owning: found) }
        var current = self
        var walked = ""
        for part in path.pathParts {
            if mkdirat(current.descriptor, part, 0o777) == 0 {
                try current.sync()
            } else if errno != EEXIST {
                throw TransferError(file: "the directory \(walked)\(part) cannot be made", errno)
            }
            walked += part + "/"
            let next = clinux_open_beneath(descriptor, walked, O_RDONLY | O_DIRECTORY, 0)
            guard next >= 0 else { throw TransferError(file: "the directory \(walked) cannot be used", errno) }
            current = Directory(owning: next)
        }
        return current
    }

    /// Opens the directory at `path` below this one; "" is this one. nil if it does not exist, or may not be used. No link
    /// may lead out.
    ///
    /// - Throws: A passing error (`TransferError.isPassing`), after which it is unknown what the directory holds.
    func openExisting(_ path: String) throws(TransferError) -> Directory? {
        let next = clinux_open_beneath(descriptor, path.isEmpty ? "." : path, O_RDONLY | O_DIRECTORY, 0)
        if next >= 0 { return Directory(owning: next) }
        let code = errno
        if TransferError.isPassing(code) { throw TransferError(file: "the directory \(path) cannot be opened", code) }
        return nil
    }

    func status(of name: String) -> stat? {
        var status = stat()
        return fstatat(descriptor, name, &status, AT_SYMLINK_NOFOLLOW) == 0 ? status : nil
    }

    /// The status of the file with this name; nil if there is none.
    ///
    /// - Throws: A passing error (`TransferError.isPassing`), after which it is unknown whether there is one.
    func known(_ name: String) throws(TransferError) -> stat? {
        if let status = status(of: name) { return status }
        let code = errno
        if TransferError.isPassing(code) { throw TransferError(file: "the file \(name) cannot be examined", code) }
        return nil
    }

    func unlink(_ name: String) { unlinkat(descriptor, name, 0) }

    /// 0 or errno.
    func link(_ name: String, to other: String) -> Int32 {
        linkat(descriptor, name, descriptor, other, 0) == 0 ? 0 : errno
    }

    /// Gives the file the other name, unless something has that; 0 or errno. Between the check and the rename another
    /// program may create the name.
    func renameIfAbsent(_ name: String, to other: String) -> Int32 {
        var status = stat()
        guard fstatat(descriptor, other, &status, AT_SYMLINK_NOFOLLOW) != 0 else { return EEXIST }
        // Any other error says nothing about the name, and the rename would replace what has it.
        return errno == ENOENT ? rename(name, to: other) : errno
    }

    /// Replaces whatever has the other name; 0 or errno.
    func rename(_ name: String, to other: String) -> Int32 {
        renameat(descriptor, name, descriptor, other) == 0 ? 0 : errno
    }

    /// Makes the names in it durable. Blocks.
    func sync() throws(TransferError) {
        // Some file systems cannot sync a directory, and say so with one of these codes.
        if fsync(descriptor) != 0, errno != EINVAL, errno != ENOTSUP {
            throw TransferError(file: "the file's directory cannot be synced", errno)
        }
    }

    var fileIdentity: FileIdentity? { FileIdentity(of: descriptor) }

    static let probePrefix = "\(HiddenName.prefix)probe-"

    /// A name for a file that exists only briefly.
    static func probeName() -> String { "\(probePrefix)\(getpid())-\(UInt64.random(in: 0...(.max)))" }

    /// Creates, writes, syncs and removes a test file. Returns 0, or the errno of the call that failed. Blocks.
    func tryWriting() -> Int32 {
        let name = Self.probeName()
        let file = openat(descriptor, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard file >= 0 else { return errno }
        errno = 0
        let isWritten = write(file, "x", 1) == 1 && fsync(file) == 0
        // A write of no bytes sets no errno.
        let code = errno == 0 ? EIO : errno
        close(file)
        unlink(name)
        return isWritten ? 0 : code
    }

    enum EntryKind { case file, other }

    /// The names in it, without `.` and `..`.
    ///
    /// - Throws: The error of the directory, such as too many open files.
    func names() throws(TransferError) -> [String] { try entries().map(\.name) }

    /// The entries, and whether each is certainly a regular file.
    ///
    /// - Throws: As `names()`.
    func entries() throws(TransferError) -> [(name: String, kind: EntryKind)] {
        let copy = openat(descriptor, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard copy >= 0 else { throw TransferError(file: Self.unreadable, errno) }
        guard let stream = fdopendir(copy) else {
            let code = errno
            close(copy)
            throw TransferError(file: Self.unreadable, code)
        }
        defer { closedir(stream) }
        var entries: [(name: String, kind: EntryKind)] = []
        while true {
            // Only errno tells an error from the end (readdir(3)).
            errno = 0
            guard let entry = readdir(stream) else { break }
            let name = withUnsafePointer(to: &entry.pointee.d_name) {
                $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            guard name != ".", name != ".." else { continue }
            entries.append((name, entry.pointee.d_type == UInt8(DT_REG) ? .file : .other))
        }
        guard errno == 0 else { throw TransferError(file: Self.unreadable, errno) }
        return entries
    }

    private static let unreadable = "the file's directory cannot be read"
}
