import CLinux
import Contract
import Glibc
import Transfer

/// Which partial file: it lies beside `file`, the finished one's path.
package struct PartialPlace: Sendable {
    package let file: String
    package let key: String
    package let generation: String

    package init(file: String, key: String, generation: String) {
        (self.file, self.key, self.generation) = (file, key, generation)
    }
}

/// The file that a download grows in: `.haul-<key>-<generation>` beside its final name. A generation is named by the
/// token that opened it, created with O_EXCL and never truncated: a fenced worker writes into a file of its own.
struct PartialFile: Sendable {
    let directory: Directory
    /// sha1 of the queue and the job's id.
    let key: String
    let generation: String
    let descriptor: Int32

    var name: String { Self.name(key, generation) }

    static func name(_ key: String, _ generation: String) -> String { "\(Store.hiddenPrefix)\(key)-\(generation)" }

    /// What a partial file's name says; nil for other names.
    static func identity(of name: String) -> (key: String, generation: String)? {
        guard name.hasPrefix(Store.hiddenPrefix) else { return nil }
        let parts = name.split(separator: "-", omittingEmptySubsequences: false)
        guard parts.count >= 3, parts[1].utf8.count == 40 else { return nil }
        return (String(parts[1]), String(parts[2]))
    }

    static func key(of name: String) -> String? { identity(of: name)?.key }

    /// A new generation. Whoever opens one first unlinks the job's others: their writers are fenced. One that has its
    /// final name already stays until that is replaced: it proves that the file there is the job's own.
    /// A job that nobody ran before is `alone`: a directory of many files is not searched for each new one.
    static func create(
        in directory: Directory, key: String, generation: String, mode: mode_t, alone: Bool = false
    ) throws(TransferError) -> PartialFile {
        for name in alone ? [] : directory.names() where Self.key(of: name) == key {
            if let status = directory.status(of: name), status.st_nlink < 2 { directory.unlink(name) }
        }
        let descriptor = openat(
            directory.descriptor, name(key, generation), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode)
        guard descriptor >= 0 else {
            throw TransferError(file: "a partial file cannot be made", errno)
        }
        return PartialFile(directory: directory, key: key, generation: generation, descriptor: descriptor)
    }

    /// What earlier runs left, once this one has its final name.
    func unlinkOthers() {
        for other in directory.names() where Self.key(of: other) == key && other != name { directory.unlink(other) }
    }

    enum Found {
        case open(PartialFile)
        /// It has its final name already: finished, and not settled.
        case placed(name: String, status: stat)
    }

    /// The generation that `resume` speaks of, if all that it promises is there.
    static func find(_ resume: ResumePoint, in directory: Directory, key: String) -> Found? {
        let name = name(key, resume.generation)
        let descriptor = openat(directory.descriptor, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW)
        guard descriptor >= 0 else { return nil }
        var status = stat()
        fstat(descriptor, &status)
        if status.st_nlink > 1 {
            close(descriptor)
            let twin = directory.names().first { other in
                key != Self.key(of: other) && directory.status(of: other)?.st_ino == status.st_ino
            }
            return twin.map { .placed(name: $0, status: status) }
        }
        guard Int64(status.st_size) >= resume.offsets.end, BlockCheck.holds(resume, descriptor) else {
            close(descriptor)
            return nil
        }
        return .open(PartialFile(directory: directory, key: key, generation: resume.generation, descriptor: descriptor))
    }
}
