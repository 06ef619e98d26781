import Glibc
import HaulRedis

/// A redis-server of our own on a unix socket, for `haul get`: its data lies in a directory, so that the next run goes on.
///
/// It runs under a shell that waits for the end of a pipe: however this process dies, the pipe ends, and the shell ends
/// Redis. Nothing is left running.
struct PrivateRedis {
    private static let guardian =
        #"redis-server "$@" </dev/null & pid=$!; read -r _; kill "$pid" 2>/dev/null; wait "$pid""#

    let url: RedisURL
    private let directory: String
    private let client: Redis
    private let shell: pid_t
    private let lifeline: Int32

    /// Starts it; `untilReady` waits until it answers, and there is something else to do meanwhile.
    static func start(in directory: String) async throws -> PrivateRedis {
        guard isInstalled else {
            throw ExitStatus.because(.redisUnreachable, "haul get needs redis-server: apt-get install redis-server")
        }
        let socket = directory + "/redis.sock"
        let options = [
            "--port", "0", "--unixsocket", socket, "--unixsocketperm", "700", "--dir", directory, "--appendonly", "yes",
            "--save",
            "", "--daemonize", "no", "--logfile", directory + "/redis.log",
        ]
        let url: RedisURL
        do { url = try RedisURL("unix://\(socket)") } catch { throw ExitStatus.because(error) }
        // The shell and Redis hold it: an earlier run's Redis, which ends after its run, would take our socket away with it.
        let lock = open(directory + "/redis.lock", O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        defer { close(lock) }
        let limit = ContinuousClock.now + .seconds(20)
        while flock(lock, LOCK_EX | LOCK_NB) != 0, errno == EWOULDBLOCK, .now < limit {
            try? await Task.sleep(for: .milliseconds(5))
        }
        // One that was killed has left it: from here on it tells that Redis is there.
        unlink(socket)
        guard let (shell, lifeline) = spawn(["/bin/sh", "-c", guardian, "sh"] + options, holding: lock) else {
            throw ExitStatus.because(
                .redisUnreachable, "the private redis-server cannot be started: \(String(cString: strerror(errno)))")
        }
        return PrivateRedis(
            url: url, directory: directory, client: Redis(url, name: "haul-get"), shell: shell, lifeline: lifeline)
    }

    func untilReady() async throws {
        let patience = ContinuousClock.now + .seconds(1)
        // Sooner than the client would try again.
        while access(directory + "/redis.sock", F_OK) != 0, .now < patience {
            try? await Task.sleep(for: .milliseconds(1))
        }
        do {
            try await client.send(Command("PING"), timeout: .seconds(20))
        } catch {
            if error.code == .badURL {
                throw ExitStatus.because(.usage, "\(error.message): set XDG_STATE_HOME to a shorter directory")
            }
            throw ExitStatus.because(
                .redisUnreachable,
                "the private redis-server does not answer: see \(directory)/redis.log, and whether its disk is full")
        }
    }

    /// Ends it, with its data on disk, and waits until it is gone.
    func stop() async {
        // A signal, which the shell sends, is seen to at the next tenth of a second; the command at once.
        _ = try? await client.send(Command("SHUTDOWN"), timeout: .seconds(1))
        close(lifeline)
        var status: Int32 = 0
        while waitpid(shell, &status, 0) < 0, errno == EINTR {}
    }

    private static var isInstalled: Bool {
        (CommonOptions.environment("PATH") ?? "").split(separator: ":").contains {
            access("\($0)/redis-server", X_OK) == 0
        }
    }

    /// The child, and the end of the pipe that keeps it alive.
    private static func spawn(_ arguments: [String], holding lock: Int32) -> (pid_t, Int32)? {
        var ends: [Int32] = [0, 0]
        guard pipe(&ends) == 0 else { return nil }
        // The child must not hold the end whose closing it waits for.
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        defer { close(ends[0]) }
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        posix_spawn_file_actions_adddup2(&actions, ends[0], 0)
        posix_spawn_file_actions_adddup2(&actions, lock, 3)
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        // Threads of Swift's runtime block signals; Redis must hear the shell's SIGTERM. And a group of its own: Ctrl-C is
        // ours to handle, Redis ends after us.
        var none = sigset_t()
        sigemptyset(&none)
        posix_spawnattr_setsigmask(&attributes, &none)
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK))
        var pointers: [UnsafeMutablePointer<CChar>?] = arguments.map { strdup($0) } + [nil]
        defer {
            for pointer in pointers { free(pointer) }
            posix_spawn_file_actions_destroy(&actions)
            posix_spawnattr_destroy(&attributes)
        }
        var child = pid_t()
        guard posix_spawn(&child, arguments[0], &actions, &attributes, &pointers, environ) == 0 else {
            close(ends[1])
            return nil
        }
        return (child, ends[1])
    }
}
