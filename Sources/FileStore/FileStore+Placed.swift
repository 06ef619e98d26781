import Glibc
package import HaulContract
import HaulExecutors
package import HaulHTTP
package import HaulStorage

// Files that have their final name although nothing records it.
extension FileStore {
    /// The keys of the jobs that have given a file in `folder` its final name, and of which a hidden file still proves
    /// that. Some may have been settled.
    package func placedKeys(in folder: String) async -> Set<String> {
        await diskWriter.blocking.run { [self] in
            guard let directory = try? directory.openExisting(folder), let names = try? directory.names() else {
                return []
            }
            let hidden = names.compactMap(HiddenName.init).filter { name in
                name.kind == .proof || directory.status(of: name.text).map { $0.st_nlink > 1 } == true
            }
            return Set(hidden.map(\.key))
        }
    }

    /// Whether a hidden file proves that the file at `path` is that of another job than `key`, or whether that cannot
    /// be found out.
    package func mayBelongToAnotherJob(_ path: String, besides key: String) async -> Bool {
        await self.diskWriter.blocking.run { [self] in
            do throws(TransferError) {
                guard let name = path.pathParts.last,
                    let directory = try directory.openExisting(path.pathParts.dropLast().joined(separator: "/")),
                    let status = try directory.known(name), status.st_nlink > 1 || naming(in: directory) != .link
                else { return false }
                return try directory.hasProof(of: name, status) { $0 != key }
            } catch { return true }
        }
    }

    /// The file that an ended run of the job `key` has given its final name, and the proof of that; nil if there is
    /// none. Everything else of the job is removed, except for the partial file of the generation to continue.
    ///
    /// - Parameters:
    ///   - folder: The directory of the file: "" for the root, otherwise with a "/" at its end.
    ///   - run: The token of the run that takes over what is left.
    package func placed(
        _ key: String, in folder: String, by run: String, continuing resume: ResumePoint?
    ) async throws(TransferError) -> (file: StoredFile, proof: PartialLocation)? {
        try await onDisk { () throws(TransferError) in
            guard let directory = try self.directory.openExisting(folder) else { return nil }
            let left = try Takeover(of: key, in: directory, by: run, continuing: resume)
            guard let placed = left.placed.first else { return nil }
            // The run may have ended before it synced the name.
            if self.options.durability == .disk { try directory.sync() }
            let path = folder + placed.name
            let file = StoredFile(
                file: path, bytes: Int64(placed.status.st_size), identity: placed.status.lastingIdentity,
                modified: placed.status.modifiedNanoseconds, checksum: nil)
            return (
                file,
                PartialLocation(file: path, key: key, generation: placed.generation, name: placed.hidden.text)
            )
        }
    }
}
