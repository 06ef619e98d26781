import CHaulLinux
import Glibc

/// Kills all processes that the tests have started, and their children, when the test process ends in any way.
enum Lifeline {
    /// The process group in which children start, so that each child is covered from its start. The group belongs to a
    /// shell that reads from a socket. Only the test process holds the other end. At the end of the stream the shell
    /// kills its group.
    static let group: pid_t? = {
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
        // Not the test process' own group: otherwise an interrupt from the terminal would end the shell first.
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETPGROUP))
        var argv: [UnsafeMutablePointer<CChar>?] = [strdup("sh"), strdup("-c"), strdup("read -r _; kill -9 0"), nil]
        defer {
            for pointer in argv { free(pointer) }
            posix_spawn_file_actions_destroy(&actions)
            posix_spawnattr_destroy(&attributes)
            close(ends[0])
        }
        var child = pid_t()
        guard posix_spawn(&child, "/bin/sh", &actions, &attributes, &argv, environ) == 0 else {
            close(ends[1])
            return nil
        }
        return child
    }()
}
