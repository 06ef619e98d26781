import Glibc

/// A process, described so that other processes on the same machine can see whether it still runs.
///
/// A process id has one meaning only until the machine boots again, and only in the same namespaces. Containers of one
/// machine share the boot, but not the namespaces.
struct HostProcess: Sendable, Equatable {
    let id: Int32
    /// The start time in the kernel's ticks since boot, because an id may be used again.
    let start: String

    init(id: Int32, start: String) { (self.id, self.start) = (id, start) }

    /// Reads `text`.
    init?(_ text: Substring) {
        let parts = text.split(separator: " ")
        guard parts.count == 2, let id = Int32(parts[0]), id > 0 else { return nil }
        self.init(id: id, start: String(parts[1]))
    }

    var text: String { "\(id) \(start)" }

    /// The boot and the namespaces in which process ids have the same meaning as here. nil if that is unknown.
    static let hostIdentity: String? = {
        // A /proc of other namespaces would show other processes.
        guard let boot = read("/proc/sys/kernel/random/boot_id"), readLink("/proc/self") == String(getpid()),
            let processes = inode("/proc/self/ns/pid"), current != nil
        else { return nil }
        // Namespaces of time shift the start times. Older kernels have none.
        return "\(boot.filter { $0 != "\n" }).\(processes).\(inode("/proc/self/ns/time") ?? 0)"
    }()

    /// This process.
    static let current: HostProcess? = state(of: getpid()).map { HostProcess(id: getpid(), start: $0.start) }

    /// Whether the process has certainly ended. May block for a short time.
    var isGone: Bool {
        if kill(id, 0) != 0 { return errno == ESRCH }
        // The id exists: the process itself, another one with the same id, or a zombie.
        guard let now = Self.state(of: id) else { return kill(id, 0) != 0 && errno == ESRCH }
        if now.start != start { return true }
        return (now.letter == "Z" || now.letter == "X") && Self.threads(of: id) == 1
    }

    /// The state and the start time from /proc/ID/stat, behind the program's name, which may contain any character.
    private static func state(of id: Int32) -> (letter: Substring, start: String)? {
        guard let text = read("/proc/\(id)/stat"), let name = text.lastIndex(of: ")") else { return nil }
        let fields = text[text.index(after: name)...].split(separator: " ")
        return fields.count > 19 ? (fields[0], String(fields[19])) : nil
    }

    private static func threads(of id: Int32) -> Int? {
        guard let folder = opendir("/proc/\(id)/task") else { return nil }
        defer { closedir(folder) }
        var count = 0
        while let entry = readdir(folder) {
            if entry.pointee.d_name.0 != CChar(UInt8(ascii: ".")) { count += 1 }
        }
        return count
    }

    private static func read(_ path: String) -> String? {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        var bytes = [UInt8](repeating: 0, count: 4096)
        let count = Glibc.read(descriptor, &bytes, bytes.count)
        return count > 0 ? String(decoding: bytes[..<count], as: UTF8.self) : nil
    }

    private static func readLink(_ path: String) -> String? {
        var bytes = [UInt8](repeating: 0, count: 256)
        let count = bytes.withUnsafeMutableBytes { readlink(path, $0.baseAddress!, $0.count) }
        return count > 0 ? String(decoding: bytes[..<count], as: UTF8.self) : nil
    }

    private static func inode(_ path: String) -> UInt64? {
        var status = stat()
        return stat(path, &status) == 0 ? UInt64(status.st_ino) : nil
    }
}
