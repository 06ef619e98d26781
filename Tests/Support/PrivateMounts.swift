import Glibc

/// Starts programs in mount namespaces of their own. Their mounts are invisible to other processes, and end with the
/// programs: full, small and read-only file systems, another resolv.conf.
package enum PrivateMounts {
    /// A user who is not root becomes root in a user namespace.
    private static var isRoot: Bool { geteuid() == 0 }

    /// Whether this machine permits such mounts. Not every container does.
    package static func arePossible(_ setup: String = "mount -t tmpfs none /mnt") async -> Bool {
        let probe = try? start(setup, "true", [])
        return (try? await probe?.wait()) == 0
    }

    /// Starts a program after `setup`, lines of sh that mount.
    package static func start(_ setup: String, _ program: String, _ arguments: [String]) throws -> ChildProcess {
        guard let path = ChildProcess.path(of: program) else {
            throw ChildProcess.Missing(description: "\(program) is missing")
        }
        return try ChildProcess(
            "unshare",
            (isRoot ? [] : ["--user", "--map-root-user"]) + [
                "--mount", "sh", "-ec", setup + "\nexec \"$@\"", "sh", path,
            ] + arguments)
    }

    /// Runs a line of sh in the mount namespace of `process`.
    package static func run(_ line: String, in process: ChildProcess) async throws {
        let shell = try ChildProcess(
            "nsenter",
            (isRoot ? [] : ["--user", "--preserve-credentials"]) + [
                "--mount", "--target", String(process.id), "sh", "-ec", line,
            ])
        guard try await shell.wait() == 0 else {
            throw ChildProcess.Missing(description: "\(line): \(shell.standardError)")
        }
    }
}
