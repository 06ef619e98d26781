import Glibc

/// A process as others on the same machine can tell whether it is there.
///
/// It is gone for certain only for those who see the same processes under the same numbers: since the machine was started, and in the
/// same namespaces. Containers of one machine share the former and not the latter.
struct HostProcess: Sendable, Equatable {
    let id: Int32
    /// In the kernel's ticks since the machine was started: a number may be given again.
    let start: String

    init(id: Int32, start: String) { (self.id, self.start) = (id, start) }

    /// As `text` says it.
    init?(_ text: Substring) {
        let parts = text.split(separator: " ")
        guard parts.count == 2, let id = Int32(parts[0]), id > 0 else { return nil }
        self.init(id: id, start: String(parts[1]))
    }

    var text: String { "\(id) \(start)" }

    /// Where processes have the numbers that this one sees; nil if that cannot be known.
    static let place: String? = {
        // A /proc of other namespaces would tell of other processes.
        guard let boot = read("/proc/sys/kernel/random/boot_id"), readLink("/proc/self") == String(getpid()),
            let processes = inode("/proc/self/ns/pid"), current != nil
        else { return nil }
        // Older kernels have no namespaces of time, which move the start.
        return "\(boot.filter { $0 != "\n" }).\(processes).\(inode("/proc/self/ns/time") ?? 0)"
    }()

    /// This one.
    static let current: HostProcess? = state(of: getpid()).map { HostProcess(id: getpid(), start: $0.start) }

    /// Whether it certainly runs no more. May block for a moment.
    var isGone: Bool {
        if kill(id, 0) != 0 { return errno == ESRCH }
        // It is there, or another one that has its number, or what its parent has not yet taken note of.
        guard let now = Self.state(of: id) else { return kill(id, 0) != 0 && errno == ESRCH }
        if now.start != start { return true }
        return (now.letter == "Z" || now.letter == "X") && Self.threads(of: id) == 1
    }

    /// Its state and when it was started, as /proc/ID/stat has them behind the program's name, which may hold anything.
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
        var facts = stat()
        return stat(path, &facts) == 0 ? UInt64(facts.st_ino) : nil
    }
}
