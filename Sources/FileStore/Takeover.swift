import Glibc
import HaulHTTP

/// What earlier runs of a job have left in its directory, once these runs are fenced: none can give a file its final
/// name any more.
///
/// A run gives the final name by one call, whose source is the hidden name that the run knows. So a new run first
/// renames every partial file of the job to a name of its own, and only then examines it. A run that lost its lease in
/// its last step, and wakes later, finds its source gone and changes nothing.
struct Takeover {
    /// A file that is finished and named but not settled; or one that is settled, whose proof is not removed yet.
    struct Placed {
        let generation: String
        /// The final name.
        let name: String
        let status: stat
        /// The hidden file that proves it, by its present name.
        let hidden: HiddenName
    }

    /// The partial file of the wanted generation, by its present name.
    private(set) var partial: HiddenName?
    private(set) var placed: [Placed] = []

    /// Takes over everything of the job `key`. Unlinks all but the `generation` to continue and the proofs that a file
    /// is the job's own. Blocks; reads the whole directory.
    ///
    /// - Throws: The error that keeps the directory from being read or a file from being renamed. Then an earlier run
    ///   may not be fenced, and this run must not go on.
    init(
        of key: String, in directory: Directory, by run: String, continuing generation: String? = nil
    ) throws(TransferError) {
        let found = try directory.names().compactMap(HiddenName.init).filter { $0.key == key }
        for name in found where name.kind == .legacy { directory.unlink(name.text) }
        var proofs = Set(found.filter { $0.kind == .proof })
        for name in found where name.kind == .partial {
            let own = name.takenOver(by: run)
            let code = directory.rename(name.text, to: own.text)
            guard code == 0 else {
                guard code == ENOENT else {
                    throw TransferError(file: "an earlier partial file cannot be renamed", code)
                }
                // The file has just got its final name.
                proofs.insert(name.proof)
                continue
            }
            // While the partial file exists, its proof is not valid.
            proofs.remove(name.proof)
            directory.unlink(name.proof.text)
            if let file = try Self.placed(own, in: directory) {
                placed.append(file)
            } else if name.generation == generation, directory.status(of: own.text).map({ $0.st_nlink < 2 }) == true {
                partial = own
            } else {
                directory.unlink(own.text)
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

    /// The finished file that a hidden name proves to be the job's own; nil if it proves none.
    static func placed(_ hidden: HiddenName, in directory: Directory) throws(TransferError) -> Placed? {
        guard let proof = directory.status(of: hidden.text) else { return nil }
        if proof.st_nlink > 1 {
            let twin = try directory.names().first { name in
                HiddenName(name)?.key != hidden.key && directory.status(of: name)?.st_ino == proof.st_ino
            }
            return twin.map { Placed(generation: hidden.generation, name: $0, status: proof, hidden: hidden) }
        }
        guard hidden.kind == .proof, let note = PlacementRecord(at: hidden.text, in: directory),
            let status = directory.status(of: note.name), note.isOf(status)
        else { return nil }
        return Placed(generation: hidden.generation, name: note.name, status: status, hidden: hidden)
    }
}

extension Directory {
    /// Whether a hidden file of a job whose key is wanted proves that the file `name` is that job's own. Blocks; reads
    /// the whole directory.
    func hasProof(
        of name: String, _ status: stat, for isWanted: (String) -> Bool
    ) throws(TransferError) -> Bool {
        try names().contains { other in
            guard let hidden = HiddenName(other), isWanted(hidden.key) else { return false }
            if status.st_nlink > 1 { return self.status(of: other)?.st_ino == status.st_ino }
            guard hidden.kind == .proof, let note = PlacementRecord(at: other, in: self) else { return false }
            return note.name == name && note.isOf(status)
        }
    }
}
