import ArgumentParser
import Glibc
import HaulBus
import HaulFileStore
import HaulHTTP
import HaulRedis
import HaulTerminal

/// What every command that talks to Redis takes.
struct CommonOptions: ParsableArguments {
    static let redisHelp: ArgumentHelp =
        "Where Redis is: redis://[user:password@]host[:port][/db], rediss://, unix:///path, redis+sentinel:// or redis+cluster:// (docs/operations.md). [HAUL_REDIS, or a file that HAUL_REDIS_FILE names, else 127.0.0.1]"

    /// Others see the arguments of a process, so that a password is better in the environment.
    static let proxyHelp: ArgumentHelp = "A proxy for all downloads, http:// or socks5h://. [HAUL_PROXY]"

    @Option(name: .long, help: Self.redisHelp)
    var redis: String?

    @Option(name: .long, help: "The queue. [HAUL_QUEUE, else default]", completion: Completer.queues)
    var queue: String?

    @Flag(name: .long, help: "One JSON object per line.")
    var json = false

    func url() throws -> RedisURL {
        let text = try redis ?? Environment.text("HAUL_REDIS") ?? Self.fromFile("HAUL_REDIS_FILE")
        do { return try RedisURL(text ?? "redis://127.0.0.1:6379") } catch {
            throw ExitStatus.because(error)
        }
    }

    func queueName() throws -> QueueName {
        let text = queue ?? Environment.text("HAUL_QUEUE") ?? "default"
        guard let name = QueueName(text) else {
            throw ExitStatus.because(
                .usage, "\"\(text)\" is no queue's name: 1 to 64 of the characters A-Z a-z 0-9 . _ -")
        }
        return name
    }

    /// The queue, with Redis reached.
    func connect() async throws -> Queue {
        let redis = Redis(try url(), name: "haul-cli")
        let queue = Queue(try queueName(), redis: redis)
        try await reaching { () throws(RedisError) in try await redis.connect(timeout: .seconds(2)) }
        return queue
    }

    /// The text of the file that a variable names, for secrets that nobody else is to see; nil if there is no such variable.
    private static func fromFile(_ variable: String) throws -> String? {
        guard let path = Environment.text(variable) else { return nil }
        guard let text = SettingsFile.text(of: path) else {
            let reason = String(cString: strerror(errno))
            throw ExitStatus.because(.usage, "\(variable) names the file \(path), which cannot be read: \(reason)")
        }
        return SettingsFile.trimmed(text)
    }
}

/// Runs `body`; an error of Redis ends the command with a sentence and status 3. Being cancelled is none.
@discardableResult
func reaching<T>(_ body: () async throws(RedisError) -> T) async throws -> T {
    do { return try await body() } catch {
        if error.code == .cancelled { throw CancellationError() }
        throw ExitStatus.because(error)
    }
}

extension ExitStatus {
    /// Every error of Redis ends with 3, and one sentence.
    static func because(_ error: RedisError) -> ExitStatus {
        because(error.code == .badURL ? .usage : .redisUnreachable, error.message)
    }
}
