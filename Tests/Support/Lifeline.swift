import CHaulLinux
import Glibc

/// Kills all processes that the tests have started, and their children, when the test process ends in any way. Then it
/// removes their files.
enum Lifeline {
    /// The directory of all temporary directories of this process. Servers that all tests share are never released, so
    /// that nothing else would remove their files: an object store has gigabytes. The path is short, because the path
    /// of a unix socket is limited to 107 bytes.
    static let directory: String = {
        let path = "/tmp/haul-\(String(UInt64.random(in: 0...(.max)), radix: 36))"
        mkdir(path, 0o700)
        return path
    }()

    /// The process group in which children start, so that each child is covered from its start. The group belongs to a
    /// shell that reads from a socket. Only the test process holds the other end. At the end of the stream the shell
    /// ends its group: `setsid` puts it into a group of its own first, so that it can remove the files afterwards.
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
        let end = "kill -9 -$0; until rm -rf $1 || [ $((tries += 1)) -gt 20 ]; do sleep 0.1; done"
        var argv: [UnsafeMutablePointer<CChar>?] = [
            strdup("sh"), strdup("-c"), strdup("read -r _; exec setsid sh -c '\(end)' $$ $0"), strdup(directory), nil,
        ]
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
