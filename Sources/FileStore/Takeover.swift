import CHaulLinux
import Glibc
import HaulContract
import HaulHTTP
import HaulStorage

/// The files that earlier runs of a job have left in its directory. Creating this value fences these runs: none can
/// give a file its final name any more.
///
/// A run creates the final name with one link or rename call, whose source is the hidden name that the run knows. So a
/// new run first renames every partial file of the job to a name of its own, and only then examines it. If an earlier
/// run was frozen before that call and continues later, the call fails because its source does not exist.
///
/// The names do not show which run is the later one. So only a run whose lease is certainly valid takes over: one that
/// was frozen for longer than its lease would unlink the file of the run that has the job now.
struct Takeover {
    /// A file that has its final name, while its job may not be settled yet. After the settle the proof is removed.
    struct Placed {
        let generation: String
        /// The final name.
        let name: String
        let status: stat
        /// The present name of the hidden file that proves whose file it is.
        let hidden: HiddenName
    }

    /// The present name of the partial file of the generation to continue.
    private(set) var partial: HiddenName?
    private(set) var placed: [Placed] = []

    /// Takes over all hidden files of the job `key`, and unlinks all of them except the partial file of the
    /// generation to continue and valid proofs. This reads the whole directory, and blocks the thread.
    ///
    /// - Parameter own: The file that this run writes, which stays as it is.
    /// - Throws: If the directory cannot be read or a file not be renamed. An earlier run may then not be fenced, so
    ///   this run must end.
    init(
        of key: String, in directory: Directory, by run: String, continuing resume: ResumePoint? = nil,
        besides own: HiddenName? = nil
    ) throws(TransferError) {
        let found = try directory.names().compactMap(HiddenName.init).filter { $0.key == key && $0 != own }
        for name in found where name.kind == .legacy { directory.unlink(name.text) }
        var proofs = Set(found.filter { $0.kind == .proof })
        for name in found where name.kind == .partial {
            let renamed = name.takenOver(by: run)
            let code = directory.rename(name.text, to: renamed.text)
            guard code == 0 else {
                guard code == ENOENT else {
                    throw TransferError(file: "an earlier partial file cannot be renamed", code)
                }
                // The earlier run has just moved it to its final name.
                proofs.insert(name.proof)
                continue
            }
            // While the partial file exists, no proof of its generation is valid, whichever run has made it: that run was
            // killed before it gave the file its name.
            for proof in [name.proof] + proofs.filter({ $0.generation == name.generation }) {
                proofs.remove(proof)
                directory.unlink(proof.text)
            }
            if let file = try Self.placed(renamed, in: directory) {
                placed.append(file)
            } else if let resume, name.generation == resume.generation,
                try Self.isUnnamed(renamed, total: resume.entity.total, in: directory)
            {
                partial = renamed
            } else {
                directory.unlink(renamed.text)
            }
        }
        for proof in proofs {
            if let file = try Self.placed(proof, in: directory) {
                placed.append(file)
            } else {
                directory.unlink(proof.text)
            }
        }
    }

    /// Whether the file has never had its final name. A further link may be that of a finished file that was moved to
    /// another directory, and must not be written to. Of a file that is not whole it is another program's, such as a
    /// snapshot of the root made of links.
    ///
    /// - Throws: The error that keeps the file from being examined, so that the answer is unknown.
    private static func isUnnamed(
        _ hidden: HiddenName, total: Int64?, in directory: Directory
    ) throws(TransferError) -> Bool {
        guard let status = try directory.known(hidden.text) else { return false }
        guard status.st_nlink > 1 else { return true }
        guard let total else { return false }
        if Int64(status.st_size) < total { return true }
        let descriptor = openat(directory.descriptor, hidden.text, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
        guard descriptor >= 0 else {
            throw TransferError(file: "the partial file \(hidden.text) cannot be opened", errno)
        }
        defer { close(descriptor) }
        return Volume.isLocal(descriptor) && clinux_first_hole(descriptor) < total
    }

    /// The finished file that `hidden` proves to be the job's own; nil if there is none.
    static func placed(_ hidden: HiddenName, in directory: Directory) throws(TransferError) -> Placed? {
        guard let proof = try directory.known(hidden.text) else { return nil }
        if proof.st_nlink > 1 {
            for name in try directory.names() where HiddenName(name)?.key != hidden.key {
                if try directory.known(name)?.st_ino == proof.st_ino {
                    return Placed(generation: hidden.generation, name: name, status: proof, hidden: hidden)
                }
            }
            return nil
        }
        guard hidden.kind == .proof, let record = PlacementRecord(at: hidden.text, in: directory),
            let status = try directory.known(record.name), record.matches(status)
        else { return nil }
        return Placed(generation: hidden.generation, name: record.name, status: status, hidden: hidden)
    }
}

extension RunLease {
    /// For a run that had the job a moment ago: false if the process has stood still since, for longer than the lease.
    var isStillHeld: Bool { isHeld() || writePermit() == .granted }
}

extension Directory {
    /// Whether a hidden file of a job with a wanted key proves that the file `name` belongs to that job. This reads the
    /// whole directory, and blocks the thread.
    func hasProof(
        of name: String, _ status: stat, for isWanted: (String) -> Bool
    ) throws(TransferError) -> Bool {
        for other in try names() {
            guard let hidden = HiddenName(other), isWanted(hidden.key) else { continue }
            if status.st_nlink > 1 {
                if try known(other)?.st_ino == status.st_ino { return true }
            } else if hidden.kind == .proof, let record = PlacementRecord(at: other, in: self), record.name == name,
                record.matches(status)
            {
                return true
            }
        }
        return false
    }
}
