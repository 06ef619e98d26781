import Glibc
import Redis

/// A redis-server of our own on a unix socket, for `haul get`: its data lies in a directory, so that the next run goes on.
struct PrivateRedis {
    let url: RedisURL
    private let process: pid_t

    /// Starts it and waits until it answers.
    static func start(in directory: String) async throws -> PrivateRedis {
        let socket = directory + "/redis.sock"
        let arguments = [
            "redis-server", "--port", "0", "--unixsocket", socket, "--unixsocketperm", "700", "--dir", directory,
            "--appendonly",
            "yes", "--save", "", "--daemonize", "no", "--logfile", directory + "/redis.log",
        ]
        var process = pid_t()
        var pointers: [UnsafeMutablePointer<CChar>?] = arguments.map { strdup($0) } + [nil]
        defer { for pointer in pointers { free(pointer) } }
        // A group of its own: Ctrl-C is ours to handle; Redis ends after us.
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        // Threads of Swift's runtime block signals; Redis must hear our SIGTERM.
        var none = sigset_t()
        sigemptyset(&none)
        posix_spawnattr_setsigmask(&attributes, &none)
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK))
        defer { posix_spawnattr_destroy(&attributes) }
        guard posix_spawnp(&process, "redis-server", nil, &attributes, &pointers, environ) == 0 else {
            throw ExitStatus.because(.redisUnreachable, "haul get needs redis-server: apt-get install redis-server")
        }
        let url: RedisURL
        do { url = try RedisURL("unix://\(socket)") } catch { throw ExitStatus.because(error) }
        let result = PrivateRedis(url: url, process: process)
        let redis = Redis(url, name: "haul-get")
        do {
            _ = try await redis.send(Command("PING"), timeout: .seconds(20))
            await redis.close()
        } catch {
            result.stop()
            throw ExitStatus.because(
                .redisUnreachable, "the private redis-server does not answer: see \(directory)/redis.log")
        }
        return result
    }

    /// Ends it, with its data on disk, and waits until it is gone.
    func stop() {
        kill(process, SIGTERM)
        var status: Int32 = 0
        while waitpid(process, &status, 0) < 0, errno == EINTR {}
    }
}
