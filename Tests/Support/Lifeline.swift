import CLinux
import Glibc
import Synchronization

/// Ends what tests have started when their own process dies, however that happens. A program of its own group knows the
/// ids, and waits for the end of a socket that only this process holds.
enum Lifeline {
    private static let guardian = #"""
        $1 == "+" { ids[$2] }
        $1 == "-" { delete ids[$2] }
        END { for (id in ids) system("kill -9 " id " 2>/dev/null") }
        """#

    private static let socket: Int32? = {
        var ends: [Int32] = [0, 0]
        guard socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0, &ends) == 0 else {
            return nil
        }
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        posix_spawn_file_actions_adddup2(&actions, ends[0], 0)
        clinux_close_from(&actions, 3)
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        // Not of our group: an interrupt from the terminal must not end it before us.
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETPGROUP))
        var argv: [UnsafeMutablePointer<CChar>?] = [strdup("awk"), strdup(guardian), nil]
        defer {
            for pointer in argv { free(pointer) }
            posix_spawn_file_actions_destroy(&actions)
            posix_spawnattr_destroy(&attributes)
            close(ends[0])
        }
        var child = pid_t()
        guard posix_spawnp(&child, "awk", &actions, &attributes, &argv, environ) == 0 else {
            close(ends[1])
            return nil
        }
        return ends[1]
    }()

    /// A child that has been started.
    static func hold(_ id: pid_t) { tell("+ \(id)\n") }

    /// A child that has been reaped: its id may be another's soon.
    static func release(_ id: pid_t) { tell("- \(id)\n") }

    /// Short lines arrive whole.
    private static func tell(_ line: String) {
        if let socket { _ = write(socket, line, line.utf8.count) }
    }
}
