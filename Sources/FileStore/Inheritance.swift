import Glibc

/// What earlier runs of a job have left in its directory, once none of them can give a file its final name any more.
///
/// Each run gives that name by one call, whose source is the hidden name that the run knows. So this one first renames every
/// partial file of the job to a name of its own, and only then looks at them: a run that lost its lease in its last step, and
/// wakes later, finds its source gone, and changes nothing.
struct Inheritance {
    /// Finished, named, and not settled; or settled, where what proves it is not removed yet.
    struct Placed {
        let generation: String
        /// The final one.
        let name: String
        let status: stat
        /// What proves it, by the name that it has now.
        let hidden: HiddenName
    }

    /// The partial file of the generation that was asked for, by the name that it has now.
    private(set) var partial: HiddenName?
    private(set) var placed: [Placed] = []

    /// Takes over what there is of the job `key`. What is neither of the `generation` that is to be continued, nor proves that a
    /// file is the job's own, is unlinked. Blocks; reads the whole directory.
    init(of key: String, in directory: Directory, by run: String, continuing generation: String? = nil) {
        let found = directory.names().compactMap(HiddenName.init).filter { $0.key == key }
        for name in found where name.kind == .relic { directory.unlink(name.text) }
        var proofs = Set(found.filter { $0.kind == .proof })
        for name in found where name.kind == .partial {
            let own = name.taken(by: run)
            guard directory.rename(name.text, to: own.text) == 0 else {
                // Named in this moment.
                proofs.insert(name.proof)
                continue
            }
            // While the partial file is there, it proves nothing.
            proofs.remove(name.proof)
            directory.unlink(name.proof.text)
            if let file = Self.placed(own, in: directory) {
                placed.append(file)
            } else if name.generation == generation, directory.status(of: own.text).map({ $0.st_nlink < 2 }) == true {
                partial = own
            } else {
                directory.unlink(own.text)
            }
        }
        for proof in proofs {
            if let file = Self.placed(proof, in: directory) {
                placed.append(file)
            } else {
                directory.unlink(proof.text)
            }
        }
    }

    /// The finished file that a hidden name proves to be the job's own.
    static func placed(_ hidden: HiddenName, in directory: Directory) -> Placed? {
        guard let proof = directory.status(of: hidden.text) else { return nil }
        if proof.st_nlink > 1 {
            let twin = directory.names().first { name in
                HiddenName(name)?.key != hidden.key && directory.status(of: name)?.st_ino == proof.st_ino
            }
            return twin.map { Placed(generation: hidden.generation, name: $0, status: proof, hidden: hidden) }
        }
        guard hidden.kind == .proof, let note = PlacedNote(at: hidden.text, in: directory),
            let status = directory.status(of: note.name), note.isOf(status)
        else { return nil }
        return Placed(generation: hidden.generation, name: note.name, status: status, hidden: hidden)
    }
}
