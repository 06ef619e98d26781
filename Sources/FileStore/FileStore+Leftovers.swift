import Glibc
import HaulContract
import HaulStorage

// Hidden files beside the finished ones.
extension FileStore {
    /// The partial files that were not written to for `age` seconds. Blocks. Walks the whole root except for folders with
    /// an id of their own, because such a folder is another store, whose jobs may be in queues that are not known here.
    func leftoversNow(olderThan age: Int64) -> [Leftover] {
        guard let now else { return [] }
        var found: [Leftover] = []
        var pending = [""]
        while let folder = pending.popLast() {
            guard let subdirectory = try? directory.openExisting(folder), let entries = try? subdirectory.entries()
            else {
                continue
            }
            if !folder.isEmpty, entries.contains(where: { $0.name == Self.idName }) { continue }
            for (name, kind) in entries {
                // Most files need no status.
                if kind == .file, !name.hasPrefix(HiddenName.prefix) { continue }
                guard let status = subdirectory.status(of: name) else { continue }
                if status.isDirectory {
                    pending.append(folder + name + "/")
                    continue
                }
                let unchanged = now - Int64(status.st_ctim.tv_sec)
                let hidden = HiddenName(name)
                guard unchanged > age, hidden != nil || folder.isEmpty && Self.isTemporary(name) else { continue }
                found.append(
                    Leftover(
                        path: folder + name, key: hidden?.key ?? "", generation: hidden?.generation ?? "",
                        holder: hidden?.holder,
                        hasFinalName: status.st_nlink > 1 || hidden?.kind == .proof, version: status.version,
                        age: unchanged))
            }
        }
        return found
    }

    private static func isTemporary(_ name: String) -> Bool {
        name.hasPrefix(Directory.probePrefix) || name.hasPrefix(idName + "-")
    }

    /// The time in seconds by the file system's clock, because only this time can be compared with the age of files.
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

    /// Unlinks the partial file of a job that will not continue, and the proof that it has its final name. Blocks.
    func unlink(_ location: PartialLocation) {
        guard let directory = folder(of: location.file) else { return }
        for name in names(of: location, in: directory) {
            directory.unlink(name.text)
            if name.kind == .partial { directory.unlink(name.proof.text) }
        }
    }

    /// Does the same for several files. Each one whose hidden name is known costs one call. Blocks.
    func unlink(_ locations: [PartialLocation]) {
        let folders = Dictionary(grouping: locations) { $0.file.pathParts.dropLast().joined(separator: "/") }
        for (folder, locations) in folders {
            guard let directory = try? directory.openExisting(folder) else { continue }
            for location in locations {
                if let name = location.name { directory.unlink(name) } else { unlink(location) }
            }
        }
    }

    /// Unlinks the partial file and its proof, unless the file already has its final name without Redis knowing of it.
    /// Then the partial file stays, because it proves that the finished file is the job's own. Blocks.
    func unlinkUnplaced(_ location: PartialLocation) {
        guard let directory = folder(of: location.file) else { return }
        for name in names(of: location, in: directory) where name.kind == .partial {
            // While the partial file exists, its proof is not valid.
            directory.unlink(name.proof.text)
            if let status = directory.status(of: name.text), status.st_nlink < 2 { directory.unlink(name.text) }
        }
    }

    private func names(of location: PartialLocation, in directory: Directory) -> [HiddenName] {
        if let name = location.name { return HiddenName(name).map { [$0] } ?? [] }
        // Most files were never taken over. So a directory of many files is not read for each of them.
        let first = HiddenName(location.key, location.generation)
        if directory.status(of: first.text) != nil { return [first] }
        return ((try? directory.names()) ?? []).compactMap(HiddenName.init).filter {
            $0.key == location.key && $0.generation == location.generation
        }
    }

    /// The directory of the path `file`, if it exists.
    private func folder(of file: String) -> Directory? {
        try? directory.openExisting(file.pathParts.dropLast().joined(separator: "/"))
    }

    /// Deletes a finished file if it still has this identity: not if it was written to since, and not another file that
    /// was given its inode. False if that cannot be found out, or if the file system refuses to unlink it. Blocks.
    func unlinkFinished(_ file: String, _ identity: FinishedIdentity) -> Bool {
        guard let name = file.pathParts.last else { return true }
        // Only these two codes say that there is no file.
        let isGone = { errno == ENOENT || errno == ENOTDIR }
        guard let directory = folder(of: file) else { return isGone() }
        guard let status = directory.status(of: name) else { return isGone() }
        guard status.matches(identity) else { return true }
        return unlinkat(directory.descriptor, name, 0) == 0 || isGone()
    }

    /// False if the file was written to since it was found, or if it is gone. Blocks.
    func unlink(_ leftover: Leftover) -> Bool {
        guard let name = leftover.path.pathParts.last, let folder = folder(of: leftover.path),
            let status = folder.status(of: name), status.version == leftover.version
        else { return false }
        folder.unlink(name)
        return true
    }
}
