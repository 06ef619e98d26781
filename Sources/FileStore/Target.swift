import Glibc
import HaulContract
import HaulHTTP
import HaulStorage

/// The final name of a download, and the files that may conflict with it.
struct Target: Sendable {
    let directory: Directory
    /// Relative to the root: "" for the root itself, otherwise with a "/" at its end.
    let folder: String
    var name: String
    /// The name to which numbers are added.
    private let unnumbered: String
    /// The job gave the path; a name that we chose may be changed.
    let isGiven: Bool

    /// The highest number of "name (1).ext" and so on.
    private static let maxNumber = 10_000

    var path: String { folder + name }

    /// The target of a job whose response suggests `suggested` as a name.
    init(_ path: String?, suggested: String, in store: FileStore) throws(TransferError) {
        let path = path ?? ""
        isGiven = !path.isEmpty && path.utf8.last != UInt8(ascii: "/")
        let full = isGiven ? path : path + suggested
        let parts = full.pathParts
        name = parts.last ?? "download"
        unnumbered = name
        folder = parts.dropLast().map { $0 + "/" }.joined()
        directory = try store.directory.openOrCreate(folder)
    }

    /// The target of a path that was chosen before.
    ///
    /// - Parameter given: The path that the job gives for the file; nil if it gives none.
    init(chosen path: String, given: String?, in store: FileStore) throws(TransferError) {
        let parts = path.pathParts
        name = parts.last ?? "download"
        unnumbered = given?.pathParts.last ?? name
        folder = parts.dropLast().map { $0 + "/" }.joined()
        isGiven = given != nil
        directory = try store.directory.openOrCreate(folder)
    }

    /// The record of the file that has this name now.
    func record(_ status: stat, checksum: String?) -> StoredFile {
        StoredFile(
            file: path, bytes: Int64(status.st_size), identity: status.lastingIdentity,
            modified: status.modifiedNanoseconds, checksum: checksum)
    }

    /// Whether the file with this name is the one that the job finished before.
    ///
    /// - Throws: The error that keeps the file from being examined, so that the answer is unknown.
    func isOwn(_ record: CompletedFile?, store: FileStore) throws(TransferError) -> Bool {
        try isFinished(record, store) == true
    }

    /// Whether it is that file, and another program has changed it since. Then it belongs to that program, although a hidden
    /// file may still prove that a run of this job placed it.
    ///
    /// - Throws: As `isOwn`.
    func isChanged(since record: CompletedFile?, store: FileStore) throws(TransferError) -> Bool {
        try isFinished(record, store) == false
    }

    /// Whether the file that the job finished before is as it was then; nil if another file has this name, or none.
    private func isFinished(_ record: CompletedFile?, _ store: FileStore) throws(TransferError) -> Bool? {
        guard let record, record.store == store.id, record.file == path, let status = try directory.known(name) else {
            return nil
        }
        if status.matches(record.identity) { return true }
        return status.hasIdentity(record.identity.inode) ? false : nil
    }

    /// Whether a run of this job placed the file with this name, and Redis does not know. A hidden file proves it.
    ///
    /// - Throws: The error that keeps the directory from being read, so that the answer is unknown.
    func isUnsettled(_ key: String, in store: FileStore) throws(TransferError) -> Bool {
        guard let status = try directory.known(name), status.st_nlink > 1 || store.naming(in: directory) != .link
        else { return false }
        return try directory.hasProof(of: name, status) { $0 == key }
    }

    /// Checks before the download whether the name conflicts with an existing file.
    ///
    /// - Throws: `file_exists`, and what `mayReplace` throws.
    func check(
        _ request: FileRequest, mayReplace: (Target) throws(TransferError) -> Bool
    ) throws(TransferError) {
        let policy = request.ifExists
        guard let status = directory.status(of: name), try !mayReplace(self) else { return }
        if policy == .fail || policy == .reuse && isGiven || policy == .overwrite && status.isDirectory {
            throw .failed(conflict(request))
        }
    }

    /// Gives a partial file its final name, which is not synced. Afterwards only `completed` may be settled.
    ///
    /// - Parameter mayReplace: Asked if a file with this name, or with a numbered one, exists.
    /// - Returns: Whether it replaced a file of this job's own. Then what earlier runs left must be unlinked, once the
    ///   name is synced.
    mutating func place(
        _ file: inout Placement, _ request: FileRequest, mayReplace: (Target) throws(TransferError) -> Bool
    ) throws(NamingError) -> Bool {
        let policy = request.ifExists
        let chosen = name
        for number in 0...Self.maxNumber {
            if number > 0 {
                name = FileName.numbered(unnumbered, number)
                if name == chosen { continue }
            }
            if try file.assign(name) { return false }
            let isOwn: Bool
            do throws(TransferError) { isOwn = try mayReplace(self) } catch { throw .failed(error) }
            if isOwn {
                try replace(&file, request)
                return true
            }
            if policy == .overwrite {
                try replace(&file, request)
                return false
            }
            guard policy == .rename || !isGiven && policy == .reuse else {
                throw .failed(.failed(conflict(request)))
            }
        }
        throw .failed(
            .failed(
                Failure(
                    .fileExists,
                    "\(folder)\(chosen) exists, and so does each of its numbered names up to \(Self.maxNumber): "
                        + "give the job a path of its own")))
    }

    enum NamingError: Error {
        /// The partial file is gone: another run, which holds the job's lease, has taken it over.
        case fenced
        case failed(TransferError)
    }

    private func replace(_ file: inout Placement, _ request: FileRequest) throws(NamingError) {
        if let old = directory.status(of: name) {
            if old.isDirectory { throw .failed(.failed(conflict(request))) }
            do throws(TransferError) { try file.adoptPermissions(of: old) } catch { throw .failed(error) }
        }
        _ = try file.assign(name, replacing: true)
    }

    private func conflict(_ request: FileRequest) -> Failure {
        directory.status(of: name)?.isDirectory == true
            ? Failure(.fileExists, "\(path) is a directory: give the path of a file") : request.conflict(at: path)
    }
}
