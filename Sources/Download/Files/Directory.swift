import CLinux
import Contract
import Glibc

/// An open directory; closed with its last reference.
final class Directory: Sendable {
    let descriptor: Int32

    init(owning descriptor: Int32) { self.descriptor = descriptor }

    deinit { close(descriptor) }

    /// The directory at `path` beneath this one, made where it is missing; new ones are synced. No link leads out.
    func descend(_ path: String) throws(Failure) -> Directory {
        var current = self
        var walked = ""
        for part in path.pathParts {
            if mkdirat(current.descriptor, part, 0o777) == 0 {
                fsync(current.descriptor)
            } else if errno != EEXIST {
                throw FileError.failure("the directory \(walked)\(part) cannot be made", errno)
            }
            walked += part + "/"
            let next = clinux_open_beneath(descriptor, walked, O_RDONLY | O_DIRECTORY, 0)
            guard next >= 0 else { throw FileError.failure("the directory \(walked) cannot be used", errno) }
            current = Directory(owning: next)
        }
        return current
    }

    func status(of name: String) -> stat? {
        var status = stat()
        return fstatat(descriptor, name, &status, AT_SYMLINK_NOFOLLOW) == 0 ? status : nil
    }

    func unlink(_ name: String) { unlinkat(descriptor, name, 0) }

    /// The names in it, without `.` and `..`.
    func names() -> [String] {
        let copy = openat(descriptor, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard copy >= 0, let stream = fdopendir(copy) else { return [] }
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
}

/// errno in the contract's codes.
enum FileError {
    static func failure(_ what: String, _ code: Int32) -> Failure {
        let reason = String(cString: strerror(code))
        return switch code {
        case EXDEV, ELOOP: Failure(.pathForbidden, "\(what): a link leads out of the root")
        case EACCES, EPERM, EROFS:
            Failure(.permission, "\(what): \(reason); see who owns it and what this worker runs as")
        case ENOTDIR: Failure(.fileExists, "\(what): a file of that name is in the way")
        case ENAMETOOLONG: Failure(.badJob, "\(what): \(reason)")
        case EMFILE, ENFILE: Failure(.localLimit, "\(what): \(reason)")
        default: Failure(.io, "\(what): \(reason)")
        }
    }

    static func isNoSpace(_ code: Int32) -> Bool { code == ENOSPC || code == EDQUOT }
}
