import CHaulLinux
import Glibc
package import HaulContract
import HaulExecutors
import HaulHTTP
import Synchronization

/// The directory that downloads go to. Its id is in the file `.haul-store`, and shows which workers share it: offsets
/// are only valid for the store that holds the bytes.
package final class FileStore: Sendable {
    /// The operator's settings for the store.
    package struct Options: Sendable {
        /// Bytes of the file system that downloads leave free.
        package var minFree: Int64 = 20_000_000
        package var durability = Durability.disk
        package var attributes = FileAttributes()
        /// The id of a store that only one program uses; nil: the id in the root's file `.haul-store`, which is made if
        /// it is missing.
        package var id: String?
        package init() {}
    }

    package let root: String
    package let id: String
    /// The root without the folder.
    private let base: String
    private let folder: String
    let options: Options
    /// How finished files get their names; nil if that could not be found out, for example because the disk was full.
    package let naming: NamingMethod?
    let diskWriter: DiskWriter
    let commits: GroupCommit
    private let current: OpenRoot
    /// Until this time there is plenty of space: monotonic nanoseconds.
    private let plentyUntil = Atomic<UInt64>(0)

    var directory: Directory { current.directory }

    /// Opens the store. Blocks.
    ///
    /// - Parameter folder: The path of a folder of `root` that is a store of its own, and is made if it is missing. No
    ///   link may lead it out of `root`. "" for the root itself.
    /// - Throws: `io` with a sentence about what is wrong with the directory. A full disk is wrong only if the root has
    ///   no id yet.
    package init(
        root base: String, folder: String = "", options: Options = Options(), diskWriter: DiskWriter = DiskWriter()
    ) throws(Failure) {
        let top = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard top >= 0 else {
            throw Self.refusal("the root \(base) cannot be used: make it a directory that this worker may write", errno)
        }
        let directory: Directory
        do throws(TransferError) { directory = try Directory(owning: top).openOrCreate(folder) } catch {
            throw Self.refusal("the folder \(folder) of the root \(base) cannot be used", errno)
        }
        let (root, descriptor) = (folder.isEmpty ? base : "\(base)/\(folder)", directory.descriptor)
        (self.base, self.folder, self.root, self.options, self.diskWriter) = (base, folder, root, options, diskWriter)
        id = try Self.identify(directory, root, as: options.id)
        // A program with one user may be killed at any time, and no other process cleans up after it. So no test file
        // is made where it is known what the file system supports.
        naming =
            options.id != nil && Volume.isLocal(descriptor)
            ? .link : NamingMethod.probe(directory, isSingleUser: options.id != nil)
        current = OpenRoot(directory)
        commits = GroupCommit(current, diskWriter.blocking, groups: Volume.isLocal(descriptor))
    }

    /// Opens a root that workers have used before.
    ///
    /// - Throws: `io` if it has no `.haul-store`.
    package convenience init(known root: String) throws(Failure) {
        guard access("\(root)/\(Self.idName)", F_OK) == 0 else {
            throw Failure(.io, "\(root) is not the root of a worker: it has no \(Self.idName)")
        }
        try self.init(root: root)
    }

    /// Opens the root again after it was gone. False if it does not exist, or if it has another id.
    func reopen() -> Bool {
        let top = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard top >= 0, let directory = try? Directory(owning: top).openExisting(folder) else { return false }
        guard options.id == id || Self.readID(directory) == id else { return false }
        current.replace(with: directory)
        return true
    }

    private static func refusal(_ what: String, _ systemError: Int32) -> Failure {
        Failure(.io, "\(what): \(String(cString: strerror(systemError)))")
    }

    private static func identify(_ directory: Directory, _ root: String, as id: String?) throws(Failure) -> String {
        // A program with one user notices an error when it writes. Without a test, it leaves no test file when killed.
        if let id { return id }
        let status = directory.tryWriting()
        guard status == 0 || isFull(status) else { throw refusal("the root \(root) is not writable", status) }
        if let known = readID(directory) { return known }
        guard status == 0 else { throw refusal("the root \(root) has no space for its first file", status) }
        // Several workers may start at once: one of them creates the file, and all read it.
        let temporary = "\(idName)-\(getpid())-\(UInt64.random(in: 0...(.max)))"
        let created = openat(directory.descriptor, temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o644)
        guard created >= 0 else { throw refusal("the root \(root) is not writable", errno) }
        let mine = Array(newID().utf8)
        let isWritten = write(created, mine, mine.count) == mine.count && fsync(created) == 0
        close(created)
        guard isWritten else {
            directory.unlink(temporary)
            throw Failure(.io, "\(root)/\(idName) cannot be made")
        }
        var naming = NamingMethod.link
        var code: Int32
        repeat {
            let lock = naming == .lockedRename ? try? NameLock(of: idName, in: directory) : nil
            code = withExtendedLifetime(lock) { naming.move(temporary, to: idName, in: directory) }
            guard code != 0, naming.isUnsupported(code) else { break }
            naming = naming.next
        } while true
        directory.unlink(temporary)
        guard let id = readID(directory) else { throw refusal("\(root)/\(idName) cannot be made", code) }
        return id
    }

    static let idName = ".haul-store"

    /// 32 hexadecimal digits.
    private static func newID() -> String {
        let digits = String(UInt128.random(in: 0...(.max)), radix: 16)
        return String(repeating: "0", count: 32 - digits.utf8.count) + digits
    }

    private static func readID(_ directory: Directory) -> String? {
        let descriptor = openat(directory.descriptor, idName, O_RDONLY | O_NOFOLLOW | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        var bytes = [UInt8](repeating: 0, count: 64)
        let length = read(descriptor, &bytes, 64)
        return length > 0 ? String(decoding: bytes.prefix(length), as: UTF8.self) : nil
    }

    /// How files get names in a directory; nil if unknown: another file system may be mounted beneath the root.
    func naming(in directory: Directory) -> NamingMethod? {
        directory.fileIdentity?.device == self.directory.fileIdentity?.device ? naming : nil
    }

    /// Whether the file system of the root had far more free space than small files can take in the time for which the
    /// answer is kept, 100 ms. Blocks.
    func hasPlentyOfSpace() -> Bool {
        let now = monotonicNanoseconds()
        if now < plentyUntil.load(ordering: .relaxed) { return true }
        var volume = statvfs()
        guard fstatvfs(directory.descriptor, &volume) == 0,
            volume.availableBytes - options.minFree >= 4 << 30
        else { return false }
        plentyUntil.store(now + 100_000_000, ordering: .relaxed)
        return true
    }

    /// Whether work that is to be done soon waits for the next files, or for `runDeferredWork`. Otherwise it is done at
    /// once, and no run waits for it.
    package var defersWork: Bool { commits.groups }

    /// A lock to hold while the file of this path gets its name. Blocks.
    func lock(_ path: String) throws(TransferError) -> NameLock { try NameLock(of: path, in: directory) }
}
