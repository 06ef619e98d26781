import Glibc
import HaulContract
import HaulHTTP

/// The file that a download grows in: `.haul-<key>-<generation>` beside its final name. A generation has the token of
/// the run that opened it. It is created with O_EXCL and never truncated: a fenced worker writes to a file of its own.
struct HiddenFile: Sendable {
    let directory: Directory
    /// Once the file has its final name, what is left under this name proves that the final file is the job's own.
    var hidden: HiddenName
    let descriptor: Int32

    var key: String { hidden.key }
    var generation: String { hidden.generation }
    var name: String { hidden.text }

    /// Creates a new generation, and touches no other file.
    static func create(
        in directory: Directory, key: String, generation: String, mode: mode_t
    ) throws(TransferError) -> HiddenFile {
        let hidden = HiddenName(key, generation)
        let descriptor = openat(
            directory.descriptor, hidden.text, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode)
        guard descriptor >= 0 else {
            throw TransferError(file: "a partial file cannot be made", errno)
        }
        return HiddenFile(directory: directory, hidden: hidden, descriptor: descriptor)
    }

    /// Opens a file that an earlier run left; nil if it has not all that `resume` promises.
    ///
    /// - Throws: If this machine cannot open it now: `TransferError.isPassing`.
    static func open(
        _ hidden: HiddenName, fulfilling resume: ResumePoint, in directory: Directory
    ) throws(TransferError) -> HiddenFile? {
        var descriptor = openat(directory.descriptor, hidden.text, O_RDWR | O_CLOEXEC | O_NOFOLLOW)
        if descriptor < 0, errno == EACCES, makeWritable(hidden.text, in: directory) {
            descriptor = openat(directory.descriptor, hidden.text, O_RDWR | O_CLOEXEC | O_NOFOLLOW)
        }
        guard descriptor >= 0 else {
            let code = errno
            // A file on a bad sector stays unreadable, and is replaced.
            if code != EIO, TransferError.isPassing(code) {
                throw TransferError(file: "a partial file cannot be opened", code)
            }
            return nil
        }
        var status = stat()
        fstat(descriptor, &status)
        guard Int64(status.st_size) >= resume.offsets.end, BlockCheck.matches(resume, descriptor) else {
            close(descriptor)
            return nil
        }
        return HiddenFile(directory: directory, hidden: hidden, descriptor: descriptor)
    }

    /// Gives the owner of a whole partial file its rights back, which the mode of the finished file may lack. The file gets
    /// that mode again before it is named. Returns whether it did, and sets `errno` if not.
    private static func makeWritable(_ name: String, in directory: Directory) -> Bool {
        guard let status = directory.status(of: name), status.st_mode & S_IFMT == S_IFREG, status.st_nlink == 1 else {
            errno = EACCES
            return false
        }
        return fchmodat(directory.descriptor, name, status.st_mode & 0o777 | 0o600, 0) == 0
    }

    /// Unlinks what earlier runs left, once this file has its final name.
    func unlinkOthers() {
        for other in (try? directory.names()) ?? [] where HiddenName(other)?.key == key && other != name {
            directory.unlink(other)
        }
    }
}
