import Glibc
import HaulContract
import HaulStorage

// What lies beside the finished files.
extension FileStore {
    /// The partial files that nobody has written to for `age` seconds. Blocks; walks the whole root.
    func leftoversNow(olderThan age: Int64) -> [Leftover] {
        guard let now else { return [] }
        var found: [Leftover] = []
        var pending = [""]
        while let folder = pending.popLast() {
            guard let here = directory.beneath(folder) else { continue }
            for (name, kind) in here.entries() {
                // Of most files nothing is asked.
                if kind == .file, !name.hasPrefix(HiddenName.prefix) { continue }
                guard let status = here.status(of: name) else { continue }
                if status.isDirectory {
                    pending.append(folder + name + "/")
                    continue
                }
                let unchanged = now - Int64(status.st_ctim.tv_sec)
                let hidden = HiddenName(name)
                guard unchanged > age, hidden != nil || folder.isEmpty && Self.isMomentary(name) else { continue }
                found.append(
                    Leftover(
                        path: folder + name, key: hidden?.key ?? "", generation: hidden?.generation ?? "",
                        holder: hidden?.holder,
                        isPlaced: status.st_nlink > 1 || hidden?.kind == .proof, version: status.version,
                        age: unchanged))
            }
        }
        return found
    }

    private static func isMomentary(_ name: String) -> Bool {
        name.hasPrefix(Directory.probePrefix) || name.hasPrefix(idName + "-")
    }

    /// The time in seconds as the file system tells it: only that can be compared with the age of files.
    private var now: Int64? {
        let name = "\(Self.idName)-now-\(UInt64.random(in: 0...(.max)))"
        let descriptor = openat(directory.descriptor, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { return nil }
        var status = stat()
        fstat(descriptor, &status)
        close(descriptor)
        directory.unlink(name)
        return Int64(status.st_mtim.tv_sec)
    }

    /// Unlinks the partial file of a job that will not go on, and what proves that it has its final name. Blocks.
    func unlink(_ place: PartialPlace) {
        guard let directory = folder(of: place.file) else { return }
        for name in names(of: place, in: directory) {
            directory.unlink(name.text)
            if name.kind == .partial { directory.unlink(name.proof.text) }
        }
    }

    /// The same, but not one that has its final name already, unheard of: it proves that the file there is the job's own.
    func unlinkUnplaced(_ place: PartialPlace) {
        guard let directory = folder(of: place.file) else { return }
        for name in names(of: place, in: directory) where name.kind == .partial {
            // While the partial file is there, it proves nothing.
            directory.unlink(name.proof.text)
            if let status = directory.status(of: name.text), status.st_nlink < 2 { directory.unlink(name.text) }
        }
    }

    private func names(of place: PartialPlace, in directory: Directory) -> [HiddenName] {
        if let name = place.name { return HiddenName(name).map { [$0] } ?? [] }
        // Most were never taken over: no directory of many files is read for each of them.
        let first = HiddenName(place.key, place.generation)
        if directory.status(of: first.text) != nil { return [first] }
        return directory.names().compactMap(HiddenName.init).filter {
            $0.key == place.key && $0.generation == place.generation
        }
    }

    /// The directory of a path, if it is there.
    private func folder(of file: String) -> Directory? {
        directory.beneath(file.pathParts.dropLast().joined(separator: "/"))
    }

    /// Deletes a finished file, if it still is the one with this identity: not one that was written to since, nor another that was
    /// given its inode. Blocks.
    func unlinkFinished(_ file: String, _ identity: FinishedIdentity) {
        guard let name = file.pathParts.last, let directory = folder(of: file),
            let status = directory.status(of: name), status.matches(identity)
        else { return }
        directory.unlink(name)
    }

    /// False if somebody has written to it since it was found, or it is gone. Blocks.
    func unlink(_ leftover: Leftover) -> Bool {
        guard let name = leftover.path.pathParts.last, let folder = folder(of: leftover.path),
            let status = folder.status(of: name), status.version == leftover.version
        else { return false }
        folder.unlink(name)
        return true
    }
}
