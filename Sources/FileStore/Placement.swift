import Glibc
import HaulContract
import HaulHTTP

/// A partial file on its way to its final name. One call gives the final name, and its source is the partial file's
/// hidden name. If a later run has taken that name away, the call fails, however late it comes.
struct Placement {
    /// Once the file has its final name, its hidden name is that of the proof.
    private(set) var partial: HiddenFile
    /// The status of the whole file, before it has its final name or after.
    private(set) var status: stat
    private let store: FileStore
    private let folder: String
    private let isDurable: Bool
    private var naming: NamingMethod

    /// `folder` is the folder of the final name. If `isDurable`, the proof survives a power cut.
    init(_ partial: HiddenFile, _ status: stat, in store: FileStore, folder: String, isDurable: Bool) {
        (self.partial, self.status, self.store) = (partial, status, store)
        (self.folder, self.isDurable) = (folder, isDurable)
        // What the file system refuses shows when it is tried. So on the usual root nothing has to be looked up for
        // each file.
        naming = store.naming == .link ? .link : store.naming(in: partial.directory) ?? .link
    }

    private var directory: Directory { partial.directory }

    /// Gives the file the permissions of the file that it is about to replace, unless the operator has chosen some. Who
    /// has made a file private expects that its next version is private, too. Blocks.
    mutating func adoptPermissions(of old: stat) throws(TransferError) {
        let mode = old.st_mode & 0o777
        guard store.options.attributes.mode == nil, old.st_mode & S_IFMT == S_IFREG, status.st_mode & 0o777 != mode
        else { return }
        guard fchmod(partial.descriptor, mode) == 0, !isDurable || fsync(partial.descriptor) == 0 else {
            throw TransferError(file: "the file's mode cannot be set", errno)
        }
        fstat(partial.descriptor, &status)
    }

    /// Gives the file this name. False if the name exists and is not to be replaced. Blocks.
    mutating func assign(_ name: String, replacing: Bool = false) throws(Target.NamingError) -> Bool {
        while true {
            let source = partial.name
            let code: Int32
            do throws(TransferError) {
                try checkSource()
                code = try naming == .link ? link(name, replacing) : rename(name, replacing)
                if code == 0 { try checkResult(name, from: source) }
            } catch { throw .failed(error) }
            switch code {
            case 0: return true
            case EEXIST where !replacing: return false
            case ENOENT: throw .fenced
            case _ where naming.isUnsupported(code): naming = naming.next
            default: throw .failed(TransferError(file: "\(folder)\(name) cannot be put in place", code))
            }
        }
    }

    /// The hidden name must belong to the file that was written: others may write in the directory, too. If the name is
    /// gone, the call that gives the final name finds out.
    private func checkSource() throws(TransferError) {
        guard let found = directory.status(of: partial.name),
            !found.isSameFile(as: status, hasLastingInodes: naming == .link)
        else { return }
        throw Self.disturbed(partial)
    }

    /// The hidden file may have been exchanged between the check and a link. Then both names belong to what replaced
    /// it, and the final name is removed again. Anything else is legitimate: a consumer of finished files may have
    /// moved this one away already, or another job may have replaced it.
    private mutating func checkResult(_ name: String, from source: String) throws(TransferError) {
        if let found = directory.status(of: name) {
            if found.st_ino == status.st_ino, found.st_dev == status.st_dev {
                // With the number of links that the name has made.
                status = found
                return
            }
            if directory.status(of: source)?.st_ino == found.st_ino {
                directory.unlink(name)
                throw Self.disturbed(partial)
            }
        }
        fstat(partial.descriptor, &status)
    }

    /// The partial file cannot be continued, because it is unknown which of its bytes are right. It is removed.
    static func disturbed(_ partial: HiddenFile) -> TransferError {
        partial.directory.unlink(partial.name)
        return TransferError(
            .io,
            "the partial file \(partial.name) was exchanged or cut while it was written: check which other program writes there"
        )
    }

    private mutating func link(_ name: String, _ replacing: Bool) -> Int32 {
        guard replacing else { return naming.move(partial.name, to: name, in: directory) }
        let proof = partial.hidden.proof
        directory.unlink(proof.text)
        let code = directory.link(partial.name, to: proof.text)
        return code == 0 ? end(directory.rename(partial.name, to: name), with: proof) : code
    }

    private mutating func rename(_ name: String, _ replacing: Bool) throws(TransferError) -> Int32 {
        let lock = naming == .lockedRename ? try store.lock(folder + name) : nil
        defer { withExtendedLifetime(lock) {} }
        // So that no record is written in vain.
        if !replacing, directory.status(of: name) != nil { return EEXIST }
        let proof = partial.hidden.proof
        try PlacementRecord(of: status, as: name).write(at: proof.text, in: directory, isDurable: isDurable)
        let code =
            replacing
            ? directory.rename(partial.name, to: name) : naming.move(partial.name, to: name, in: directory)
        return end(code, with: proof)
    }

    private mutating func end(_ code: Int32, with proof: HiddenName) -> Int32 {
        if code == 0 { partial.hidden = proof } else { directory.unlink(proof.text) }
        return code
    }
}
