import Glibc

/// The standard process metrics of Prometheus' client libraries, from /proc/self.
package enum ProcessMetrics {
    package static func add(to exposition: inout Exposition) {
        var usage = rusage()
        if getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage) == 0 {
            exposition.add(.processCPU, seconds(usage.ru_utime) + seconds(usage.ru_stime))
        }
        // The second field is the resident memory, in pages.
        if let pages = read("/proc/self/statm")?.split(separator: " ").dropFirst().first.flatMap({ Int($0) }) {
            exposition.add(.processMemory, pages * sysconf(Int32(_SC_PAGESIZE)))
        }
        if let count = openDescriptors { exposition.add(.processDescriptors, count) }
        var limit = rlimit()
        if getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 {
            exposition.add(.processDescriptorLimit, limit.rlim_cur)
        }
        if let start { exposition.add(.processStart, start) }
    }

    /// When the process started: Unix time in seconds.
    private static let start: Double? = {
        // The second field is the program's name in parentheses. It may contain blanks and parentheses itself, so the
        // fields are counted from the last one. Field 22 of proc_pid_stat(5) is the start in clock ticks since boot.
        guard let text = read("/proc/self/stat"), let name = text.lastIndex(of: ")") else { return nil }
        let fields = text[text.index(after: name)...].split(separator: " ")
        guard fields.count > 19, let ticks = Double(fields[19]),
            let boot = read("/proc/stat")?.split(separator: "\n").first(where: { $0.hasPrefix("btime ") }),
            let booted = Double(boot.dropFirst(6))
        else { return nil }
        return booted + ticks / Double(sysconf(Int32(_SC_CLK_TCK)))
    }()

    private static var openDescriptors: Int? {
        guard let folder = opendir("/proc/self/fd") else { return nil }
        defer { closedir(folder) }
        var count = 0
        while let entry = readdir(folder) {
            if entry.pointee.d_name.0 != CChar(UInt8(ascii: ".")) { count += 1 }
        }
        // The list contains the descriptor of `folder` itself.
        return count - 1
    }

    private static func seconds(_ time: timeval) -> Double { Double(time.tv_sec) + Double(time.tv_usec) / 1e6 }

    private static func read(_ path: String) -> String? {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        var bytes = [UInt8](repeating: 0, count: 16 << 10)
        let count = Glibc.read(descriptor, &bytes, bytes.count)
        return count > 0 ? String(decoding: bytes[..<count], as: UTF8.self) : nil
    }
}
