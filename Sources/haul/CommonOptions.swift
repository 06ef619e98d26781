import ArgumentParser
import Glibc
import HaulBus
import HaulFileStore
import HaulHTTP
import HaulRedis
import HaulTerminal

/// The options of every command that uses Redis.
struct CommonOptions: ParsableArguments {
    static let redisHelp: ArgumentHelp =
        "Where Redis is: redis://[user:password@]host[:port][/db], rediss://, unix:///path, redis+sentinel:// or redis+cluster:// (docs/operate/redis.md). [HAUL_REDIS, or a file that HAUL_REDIS_FILE names, else 127.0.0.1]"

    static let queueHelp: ArgumentHelp = "The queue; NAME#8 has 8 partitions. [HAUL_QUEUE, else default]"

    /// It names the environment variable: other users can see a process's arguments, and so a password in the URL.
    static let proxyHelp: ArgumentHelp = "A proxy for all downloads, http:// or socks5h://. [HAUL_PROXY]"

    @Option(name: .long, help: Self.redisHelp)
    var redis: String?

    @Option(name: .long, help: Self.queueHelp, completion: Completer.queues)
    var queue: String?

    @Flag(name: .long, help: "One JSON object per line.")
    var json = false

    func url() throws -> RedisURL {
        let text = try redis ?? Environment.text("HAUL_REDIS") ?? Self.fromFile("HAUL_REDIS_FILE")
        do { return try RedisURL(text ?? "redis://127.0.0.1:6379") } catch {
            throw ExitStatus.printing(error)
        }
    }

    /// The queue that HAUL_QUEUE names. A worker reads a folder and a weight behind the name, which concern no other
    /// command.
    static var queueOfEnvironment: String? {
        Environment.text("HAUL_QUEUE").map { String($0.prefix { $0 != ":" && $0 != "=" }) }
    }

    func queueName() throws -> QueueName {
        let text = queue ?? Self.queueOfEnvironment ?? "default"
        guard let name = QueueName(text) else {
            throw ExitStatus.printing(
                .usage, "\"\(text)\" is not a valid queue name: use \(QueueName.rule)")
        }
        return name
    }

    /// The queue, after connecting to Redis.
    ///
    /// - Parameters:
    ///   - hint: Printed behind the reason if Redis cannot be reached.
    ///   - timeout: How long Redis may take to answer.
    /// - Throws: `RedisError`, which `Haul.main` prints, or an `ExitStatus` whose reason has been printed.
    func connect(hint: String = "", timeout: Duration = .seconds(2)) async throws -> Queue {
        let redis = Redis(try url(), name: "haul-cli", patience: .once)
        let queue = Queue(try queueName(), redis: redis)
        do throws(RedisError) { try await redis.connect(timeout: timeout) } catch {
            throw error.code == .unreachable ? RedisError(error.code, error.message + hint) : error
        }
        return queue
    }

    /// The text of the file that an environment variable names, which may hold a secret. nil if the variable is not
    /// set.
    private static func fromFile(_ variable: String) throws -> String? {
        try Environment.text(variable).map { try text(ofFile: $0, namedBy: variable) }
    }

    static func text(ofFile path: String, namedBy name: String) throws -> String {
        guard let text = SettingsFile.text(of: path) else {
            let reason = String(cString: strerror(errno))
            throw ExitStatus.printing(.usage, "\(name) names the file \(path), which cannot be read: \(reason)")
        }
        return SettingsFile.trimmed(text)
    }
}

extension QueueName {
    /// The name as a shell takes it.
    var quoted: String { text.contains("#") ? "'\(text)'" : text }
}

extension Queue {
    /// What a limit of the whole queue is for, behind the limit in a sentence.
    var scopeOfLimits: String { partitions.isEmpty ? "" : " in each of its \(partitions.count) partitions" }
}

extension ExitStatus {
    /// Prints an error of Redis. The status is `.redisUnreachable`, or `.usage` for an invalid URL.
    static func printing(_ error: RedisError) -> ExitStatus {
        printing(error.code == .badURL ? .usage : .redisUnreachable, error.message)
    }
}
