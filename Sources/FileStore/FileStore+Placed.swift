import Glibc
import HaulContract
package import HaulHTTP
package import HaulStorage

// Files that have their final name although nothing records it.
extension FileStore {
    /// The file that an ended run of the job `key` has given its final name, and the proof of that; nil if there is
    /// none. Everything else of the job is removed, except for the partial file of the generation to continue.
    ///
    /// - Parameters:
    ///   - folder: The directory of the file: "" for the root, otherwise with a "/" at its end.
    ///   - run: The token of the run that takes over what is left.
    package func placed(
        _ key: String, in folder: String, by run: String, continuing generation: String?
    ) async throws(TransferError) -> (file: StoredFile, proof: PartialPlace)? {
        try await onDisk { () throws(TransferError) in
            guard let directory = self.directory.beneath(folder) else { return nil }
            let left = try Inheritance(of: key, in: directory, by: run, continuing: generation)
            guard let placed = left.placed.first else { return nil }
            // The run may have ended before it synced the name.
            if self.options.durability == .disk { try directory.sync() }
            let path = folder + placed.name
            let file = StoredFile(
                file: path, bytes: Int64(placed.status.st_size), identity: placed.status.lastingIdentity,
                modified: placed.status.modifiedNanoseconds, checksum: nil)
            return (
                file,
                PartialPlace(file: path, key: key, generation: placed.generation, name: placed.hidden.text)
            )
        }
    }
}
