import Glibc

/// A directory on a real FUSE file system that supports neither hard links nor exclusive renames: exFAT on a loop
/// device. Only programs that are started by `start` see the mount.
package final class LinklessMount: Sendable {
    private static let setup = """
        IMAGE=$(mktemp)
        truncate -s 64m "$IMAGE"
        mkfs.exfat "$IMAGE" >/dev/null 2>&1
        LOOP=$(losetup -f --show "$IMAGE")
        rm "$IMAGE"
        mount.exfat-fuse -d "$LOOP" "$ROOT" >/dev/null 2>&1 &
        n=0
        until mountpoint -q "$ROOT"; do
            n=$((n + 1))
            [ $n -lt 100 ] || { losetup -d "$LOOP"; exit 1; }
            sleep 0.05
        done
        # The kernel frees the device when its last user closes it.
        losetup -d "$LOOP"
        """

    /// Whether this machine has the programs, and permits the mount.
    package static func isPossible() async -> Bool {
        await PrivateMounts.arePossible("ROOT=$(mktemp -d)\n\(setup)\numount -l $ROOT; rmdir $ROOT")
    }

    private let root: TemporaryDirectory
    private let keeper: ChildProcess

    package init(at root: TemporaryDirectory) async throws {
        self.root = root
        keeper = try PrivateMounts.start("ROOT=\(root.path)\n\(Self.setup)", "sleep", ["infinity"])
        try await eventually("the file system to be mounted", every: .milliseconds(20)) { [keeper] in
            guard keeper.isRunning else { throw ChildProcess.Missing(description: keeper.standardError) }
            // A mount is there when the directory is on another device.
            var (outer, inner) = (stat(), stat())
            return stat(root.path, &outer) == 0 && stat("/proc/\(keeper.id)/root\(root.path)", &inner) == 0
                && outer.st_dev != inner.st_dev
        }
    }

    /// Starts a program that sees the mount.
    package func start(
        _ program: String, _ arguments: [String], environment: [String: String] = [:]
    ) throws -> ChildProcess {
        guard let path = ChildProcess.path(of: program) else {
            throw ChildProcess.Missing(description: "\(program) is missing")
        }
        return try ChildProcess(
            "nsenter", ["--mount", "--target", String(keeper.id), path] + arguments, environment: environment)
    }

    /// The path by which processes outside the mount namespace reach a file of the mount.
    package func file(_ name: String) -> String { "/proc/\(keeper.id)/root\(root.file(name))" }

    /// Kills the FUSE server. The mount stays, and each call on it fails with ENOTCONN.
    package func breakOff() async throws {
        try await PrivateMounts.run("kill -9 $(pgrep -f '^mount.exfat-fuse .* \(root.path)$')", in: keeper)
    }

    /// Unmounts the file system. Its FUSE server ends.
    package func end() async throws {
        try await PrivateMounts.run("umount -l \(root.path)", in: keeper)
        keeper.kill(SIGKILL)
    }
}
