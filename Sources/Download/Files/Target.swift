import Contract
import Glibc
import Transfer

/// The final name of a download, and how the finished file gets it: by a link, which fails when the name exists, so that
/// a race has one winner.
struct Target: Sendable {
    let directory: Directory
    /// Relative to the root, "" for the root itself, else with a "/" at its end.
    let folder: String
    var name: String
    /// The job gave the path; a name that we chose may be changed.
    let isGiven: Bool

    /// Of "name (1).ext" and so on.
    private static let mostNumber = 10_000

    var path: String { folder + name }

    /// The target of a job whose response suggests `suggested` as a name.
    init(_ path: String?, suggested: @autoclosure () -> String, in store: Store) throws(TransferError) {
        let path = path ?? ""
        isGiven = !path.isEmpty && path.utf8.last != UInt8(ascii: "/")
        let full = isGiven ? path : path + suggested()
        let parts = full.pathParts
        name = parts.last ?? "download"
        folder = parts.dropLast().map { $0 + "/" }.joined()
        directory = try store.directory.descend(folder)
    }

    /// The target of a path that was chosen before.
    init(chosen path: String, isGiven: Bool, in store: Store) throws(TransferError) {
        let parts = path.pathParts
        name = parts.last ?? "download"
        folder = parts.dropLast().map { $0 + "/" }.joined()
        self.isGiven = isGiven
        directory = try store.directory.descend(folder)
    }

    /// Whether the file there is the one that this job finished before.
    func isOwn(_ record: CompletedFile?, store: Store) -> Bool {
        guard let record, record.store == store.id, record.file == path, let status = directory.status(of: name) else {
            return false
        }
        return UInt64(status.st_ino) == record.inode && Int64(status.st_size) == record.bytes
            && status.modifiedNanoseconds == record.modified
    }

    /// Whether the file there was placed by a run of this job whose end nobody heard of: it is a partial file's twin.
    func isUnsettled(_ key: String) -> Bool {
        guard let status = directory.status(of: name), status.st_nlink > 1 else { return false }
        return directory.names().contains {
            PartialFile.key(of: $0) == key && directory.status(of: $0)?.st_ino == status.st_ino
        }
    }

    /// Looks before the download what is in the way of it.
    func check(_ policy: Job.IfExists, mayReplace: @autoclosure () -> Bool) throws(TransferError) {
        guard let status = directory.status(of: name), !mayReplace() else { return }
        if policy == .fail || policy == .reuse && isGiven || policy == .overwrite && status.isDirectory {
            throw .failed(inTheWay)
        }
    }

    /// Gives `partial` its final name, which is not synced. Afterwards only `completed` may be settled. `mayReplace` is asked if
    /// there is a file of this name. True if it has replaced the file that this job finished before: what earlier runs left
    /// is to be unlinked then, once the name is synced.
    mutating func place(_ partial: PartialFile, _ policy: Job.IfExists, mayReplace: () -> Bool)
        throws(PlaceError) -> Bool
    {
        let chosen = name
        for number in 0...Self.mostNumber {
            if number > 0 { name = FileName.numbered(chosen, number) }
            if linkat(directory.descriptor, partial.name, directory.descriptor, name, 0) == 0 { return false }
            switch errno {
            case EEXIST where number == 0 && mayReplace():
                try replace(partial)
                return true
            case EEXIST where policy == .overwrite:
                try replace(partial)
                return false
            case EEXIST where policy == .rename || !isGiven && policy == .reuse: continue
            case EEXIST: throw .failed(.failed(inTheWay))
            // Somebody who holds the job's lease has unlinked it.
            case ENOENT: throw .fenced
            case let code: throw .failed(TransferError(file: "\(path) cannot be put in place", code))
            }
        }
        throw .failed(
            .failed(
                Failure(
                    .fileExists,
                    "\(folder)\(chosen) exists, and so does each of its numbered names up to \(Self.mostNumber): "
                        + "give the job a path of its own")))
    }

    enum PlaceError: Error {
        case fenced
        case failed(TransferError)
    }

    private func replace(_ partial: PartialFile) throws(PlaceError) {
        if directory.status(of: name)?.isDirectory == true { throw .failed(.failed(inTheWay)) }
        let second = partial.name + "-placing"
        directory.unlink(second)
        guard linkat(directory.descriptor, partial.name, directory.descriptor, second, 0) == 0 else {
            throw errno == ENOENT ? .fenced : .failed(TransferError(file: "\(path) cannot be replaced", errno))
        }
        guard renameat(directory.descriptor, second, directory.descriptor, name) == 0 else {
            let code = errno
            directory.unlink(second)
            throw .failed(TransferError(file: "\(path) cannot be replaced", code))
        }
    }

    private var inTheWay: Failure {
        let isDirectory = directory.status(of: name)?.isDirectory == true
        return Failure(
            .fileExists,
            isDirectory
                ? "\(path) is a directory: give the path of a file"
                : "\(path) exists and is not this job's: choose another path, or if_exists overwrite or rename")
    }
}

extension stat {
    var isDirectory: Bool { st_mode & S_IFMT == S_IFDIR }

    var modifiedNanoseconds: Int64 { Int64(st_mtim.tv_sec) * 1_000_000_000 + Int64(st_mtim.tv_nsec) }
}
