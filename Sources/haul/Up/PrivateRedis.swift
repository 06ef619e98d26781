import Glibc
import HaulContract
import HaulHTTP
import HaulHTTPServer
import HaulRedis
import HaulTerminal

/// The redis-server that `haul up` starts for itself. It listens on a socket in the private directory, and with
/// `--expose-redis` also on a port of loopback.
struct PrivateRedis {
    let directory: PrivateDirectory
    /// nil without `--expose-redis`.
    let port: Int?

    /// Where workers and commands on this machine find it. It holds the password if there is one.
    var url: String {
        port == nil ? "unix://\(directory.socket)" : "unix://\(directory.socket)?password=\(password)"
    }

    /// As a URL takes it: the user may have chosen any.
    private var password: String { PercentEncoding.component(directory.password) }

    /// The address that is printed. Clients of other programs need the port, if there is one.
    var printedURL: String {
        port.map { "redis://default:\(password)@127.0.0.1:\($0)" } ?? "unix://\(directory.socket)"
    }

    /// The words of `redis-cli` that reach it.
    var client: String {
        port == nil ? "redis-cli -s \(Self.quoted(directory.socket))" : "redis-cli -u \(Self.quoted(printedURL))"
    }

    /// Starts the server. It first loads its data: see `answers()`.
    ///
    /// - Throws: `ExitStatus`; the reason has been printed.
    func start(hasEnded: @escaping @Sendable (ChildProgram) -> Void) async throws -> ChildProgram {
        guard Self.isInstalled else {
            throw ExitStatus.printing(
                .usage,
                "haul up needs redis-server, which is not in PATH: install the package redis-server, or name another "
                    + "Redis with --redis")
        }
        if let port { try await Self.waitUntilFree(port) }
        // A file, because the password must not be among the arguments.
        try directory.write(configuration, to: "redis.conf")
        unlink(directory.socket)
        return try await ChildProgram.start(
            Self.program, [Self.program, directory.path + "/redis.conf"], hasEnded: hasEnded)
    }

    /// Returns once the server answers, or the task is cancelled.
    func answers() async {
        guard let url = try? RedisURL(url) else { return }
        let redis = Redis(url, name: "haul-up")
        while !Task.isCancelled {
            if let reply = try? await redis.send(Command("PING")), reply.string == "PONG" { return }
            try? await Task.sleep(for: .milliseconds(50))
        }
    }

    static let program = "redis-server"

    private var configuration: String {
        var lines = [
            "port \(port ?? 0)", "bind 127.0.0.1", "unixsocket \(Self.argument(directory.socket))",
            "unixsocketperm 700", "dir \(Self.argument(directory.path + "/redis"))",
            "logfile \(Self.argument(directory.path + "/redis.log"))", "loglevel notice",
            // Everything is in the append-only file, which loses at most a second when the machine loses power.
            "appendonly yes", "appendfsync everysec", "save \"\"", "maxmemory-policy noeviction", "daemonize no",
        ]
        if port != nil { lines.append("requirepass \(Self.argument(directory.password))") }
        return lines.joined(separator: "\n") + "\n"
    }

    /// An argument as redis.conf takes it, between double quotes.
    private static func argument(_ text: String) -> String {
        // Redis reads \xNN between double quotes as the byte.
        let bytes = text.utf8.flatMap { byte in
            byte < 32 || byte == 127 || byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\")
                ? Array("\\x\(Hexadecimal.text([byte]))".utf8) : [byte]
        }
        return "\"\(String(decoding: bytes, as: UTF8.self))\""
    }

    /// Refuses a port on which another program listens, because only the log of the server would say why it has ended.
    /// The server of a `haul up` that was killed takes a moment to end.
    private static func waitUntilFree(_ port: Int) async throws {
        guard let address = ListenAddress("127.0.0.1:\(port)") else { return }
        let deadline = ContinuousClock.now + .seconds(3)
        while true {
            do {
                close(try address.listen().socket)
                return
            } catch {
                guard ContinuousClock.now >= deadline else {
                    try await Task.sleep(for: .milliseconds(100))
                    continue
                }
                throw ExitStatus.printing(
                    .usage,
                    "\(error): give another --redis-port, or end what listens there. Debian starts a redis-server of "
                        + "its own, and systemctl disable --now redis-server ends that")
            }
        }
    }

    private static var isInstalled: Bool {
        (Environment.text("PATH") ?? "/usr/local/bin:/usr/bin:/bin").split(separator: ":").contains {
            access("\($0)/redis-server", X_OK) == 0
        }
    }

    /// A word for a shell.
    static func quoted(_ word: String) -> String {
        let isPlain = word.utf8.allSatisfy { byte in
            byte >= 128 || UInt8(ascii: "a")...UInt8(ascii: "z") ~= byte
                || UInt8(ascii: "A")...UInt8(ascii: "Z") ~= byte
                || UInt8(ascii: "0")...UInt8(ascii: "9") ~= byte || "_./:@%+=,-".utf8.contains(byte)
        }
        return isPlain && !word.isEmpty ? word : "'" + word.replacing("'", with: #"'\''"#) + "'"
    }
}
