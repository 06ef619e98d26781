import Glibc
import HaulContract
import HaulHTTP

/// The file that a download grows in: `.haul-<key>-<generation>` beside its final name. A generation is named by the
/// token that opened it, created with O_EXCL and never truncated: a fenced worker writes into a file of its own.
struct HiddenFile: Sendable {
    let directory: Directory
    /// What is left of it once it has its final name is the proof that this is the job's own.
    var hidden: HiddenName
    let descriptor: Int32

    var key: String { hidden.key }
    var generation: String { hidden.generation }
    var name: String { hidden.text }

    /// A new generation. Whoever opens one first takes over the job's others: their writers are fenced. What proves that a
    /// finished file is the job's own stays until that is replaced.
    /// A job that nobody ran before is `alone`: a directory of many files is not searched for each new one.
    static func create(
        in directory: Directory, key: String, generation: String, run: String, mode: mode_t, alone: Bool = false
    ) throws(TransferError) -> HiddenFile {
        if !alone { _ = Inheritance(of: key, in: directory, by: run) }
        let hidden = HiddenName(key, generation)
        let descriptor = openat(
            directory.descriptor, hidden.text, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode)
        guard descriptor >= 0 else {
            throw TransferError(file: "a partial file cannot be made", errno)
        }
        return HiddenFile(directory: directory, hidden: hidden, descriptor: descriptor)
    }

    /// One that an earlier run left, if all that `resume` promises is there.
    static func open(_ hidden: HiddenName, fulfilling resume: ResumePoint, in directory: Directory) -> HiddenFile? {
        let descriptor = openat(directory.descriptor, hidden.text, O_RDWR | O_CLOEXEC | O_NOFOLLOW)
        guard descriptor >= 0 else { return nil }
        var status = stat()
        fstat(descriptor, &status)
        guard Int64(status.st_size) >= resume.offsets.end, BlockCheck.holds(resume, descriptor) else {
            close(descriptor)
            return nil
        }
        return HiddenFile(directory: directory, hidden: hidden, descriptor: descriptor)
    }

    /// What earlier runs left, once this one has its final name.
    func unlinkOthers() {
        for other in directory.names() where HiddenName(other)?.key == key && other != name { directory.unlink(other) }
    }
}
