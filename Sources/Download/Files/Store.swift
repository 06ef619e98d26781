import CLinux
package import Contract
import Glibc
import Synchronization

/// The directory that downloads go to. Its id, in the file `.haul-store`, says which workers share it: offsets count
/// only on the store that holds the bytes.
package final class Store: Sendable {
    /// No path of a job may begin with this.
    static let hiddenPrefix = ".haul-"

    package let root: String
    package let id: String
    package static let usuallyKeptFree: Int64 = 20_000_000
    /// Of the disk's last bytes so many are left alone.
    let keptFree: Int64
    /// It is on a file system of this system's own disks, of a kind that we know.
    let isLocal: Bool
    private let current: Mutex<Directory>

    var directory: Directory { current.withLock { $0 } }

    /// Blocks. Throws a sentence about what is wrong with the directory; that it is full is not.
    package init(root: String, keepFree: Int64 = Store.usuallyKeptFree) throws(Failure) {
        let descriptor = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else {
            throw Self.refusal("the root \(root) cannot be used: make it a directory that this worker may write", errno)
        }
        (self.root, keptFree) = (root, keepFree)
        let directory = Directory(owning: descriptor)
        id = try Self.identify(directory, root)
        isLocal = Volume.isLocal(descriptor)
        current = Mutex(directory)
    }

    /// Opens the root again, after it was gone; false if there is none, or another.
    func reopen() -> Bool {
        let descriptor = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { return false }
        let directory = Directory(owning: descriptor)
        guard Self.readID(directory) == id else { return false }
        current.withLock { $0 = directory }
        return true
    }

    private static func refusal(_ what: String, _ systemError: Int32) -> Failure {
        Failure(.io, "\(what): \(String(cString: strerror(systemError)))")
    }

    private static func identify(_ directory: Directory, _ root: String) throws(Failure) -> String {
        let status = directory.tryWriting()
        guard status == 0 || isFull(status) else { throw refusal("the root \(root) is not writable", status) }
        if let known = readID(directory) { return known }
        guard status == 0 else { throw refusal("the root \(root) has no room for its first file", status) }
        // Several workers may start at once: one creates it, all read it.
        let temporary = "\(idName)-\(getpid())-\(UInt64.random(in: 0...(.max)))"
        let created = openat(directory.descriptor, temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o644)
        guard created >= 0 else { throw refusal("the root \(root) is not writable", errno) }
        let mine = Array(
            (String(UInt64.random(in: 0...(.max)), radix: 16) + String(UInt64.random(in: 0...(.max)), radix: 16)).utf8)
        let isWritten = write(created, mine, mine.count) == mine.count && fsync(created) == 0
        close(created)
        if isWritten { linkat(directory.descriptor, temporary, directory.descriptor, idName, 0) }
        directory.unlink(temporary)
        guard isWritten, let id = readID(directory) else { throw Failure(.io, "\(root)/\(idName) cannot be made") }
        return id
    }

    private static let idName = ".haul-store"

    private static func readID(_ directory: Directory) -> String? {
        let descriptor = openat(directory.descriptor, idName, O_RDONLY | O_NOFOLLOW | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        var bytes = [UInt8](repeating: 0, count: 64)
        let length = read(descriptor, &bytes, 64)
        return length > 0 ? String(decoding: bytes.prefix(length), as: UTF8.self) : nil
    }

    /// A partial file that was found, and what tells whether it is wanted.
    package struct FoundPartial: Sendable {
        let folder: String
        let name: String
        /// Empty: no partial file after all, but what a worker makes for a moment, to see if it can.
        package let key: String
        package let generation: String
        /// It has a second link: its final name, unless that is gone.
        package let isPlaced: Bool
        /// When its inode changed; when it was modified says nothing, since a finished one may have the server's time.
        let changed: timespec
        /// Seconds since then.
        package let age: Int64

        package var path: String { folder + name }
        /// The token of the run that made it.
        package var run: String { String(generation.prefix { $0 != "." }) }
    }

    /// The partial files that nobody has written to for `age` seconds. Blocks; walks the whole root.
    package func partials(olderThan age: Int64) -> [FoundPartial] {
        guard let now else { return [] }
        var found: [FoundPartial] = []
        var pending = [""]
        while let folder = pending.popLast() {
            guard let here = directory.beneath(folder) else { continue }
            for name in here.names() {
                guard let status = here.status(of: name) else { continue }
                if status.isDirectory {
                    pending.append(folder + name + "/")
                    continue
                }
                let unchanged = now - Int64(status.st_ctim.tv_sec)
                guard unchanged > age,
                    let identity = PartialFile.identity(of: name)
                        ?? (folder.isEmpty && Self.isMomentary(name) ? ("", "") : nil)
                else { continue }
                found.append(
                    FoundPartial(
                        folder: folder, name: name, key: identity.key, generation: identity.generation,
                        isPlaced: status.st_nlink > 1, changed: status.st_ctim, age: unchanged))
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

    /// Unlinks the partial file of a job that will not go on. Blocks.
    package func unlink(_ place: PartialPlace) {
        guard let target = try? Target(chosen: place.file, isGiven: true, in: self) else { return }
        target.directory.unlink(PartialFile.name(place.key, place.generation))
    }

    /// The same, but not one that has its final name already, unheard of: it proves that the file there is the job's own.
    package func unlinkUnplaced(_ place: PartialPlace) {
        let name = PartialFile.name(place.key, place.generation)
        guard let target = try? Target(chosen: place.file, isGiven: true, in: self),
            target.directory.status(of: name)?.st_nlink == 1
        else { return }
        target.directory.unlink(name)
    }

    /// Deletes a finished file, if it still is the one with this inode.
    package func unlinkFinished(_ file: String, inode: UInt64) {
        guard let target = try? Target(chosen: file, isGiven: true, in: self),
            let status = target.directory.status(of: target.name), UInt64(status.st_ino) == inode
        else { return }
        target.directory.unlink(target.name)
    }

    /// False if somebody has written to it since it was found, or it is gone. Blocks.
    package func unlink(_ partial: FoundPartial) -> Bool {
        guard let folder = directory.beneath(partial.folder), let status = folder.status(of: partial.name),
            status.st_ctim.tv_sec == partial.changed.tv_sec, status.st_ctim.tv_nsec == partial.changed.tv_nsec
        else { return false }
        folder.unlink(partial.name)
        return true
    }
}
