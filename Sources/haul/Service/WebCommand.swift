import ArgumentParser
import Glibc
import HaulBus
import HaulContract
import HaulFileStore
import HaulHTTPServer
import HaulLogs
import HaulRedis
import HaulTerminal
import HaulWeb
import Logging

struct WebCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "web", abstract: "Serve a page and an API until SIGTERM.",
        discussion: "Options need no \"serve\": haul web --queue films. They are listed by: haul help web serve",
        subcommands: [ServePage.self, HashPassword.self], defaultSubcommand: ServePage.self)

    struct ServePage: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "serve", abstract: "Serve the page; so does haul web alone.",
            discussion: "docs/operate/web.md is for operators, docs/reference/http-api.md for services.")

        @Option(name: .long, help: CommonOptions.redisHelp) var redis: String?
        @Option(help: "A queue to show and control. May be repeated. [HAUL_QUEUE, else default]")
        var queue: [String] = []
        @Option(
            help:
                "Where to listen, ADDRESS:PORT, PORT or unix:/PATH. Beyond loopback --auth is needed. May be repeated.")
        var listen: [String] = ["127.0.0.1:8484"]
        @Option(
            help: "A file of users and tokens, lines that haul web hash-password makes. [HAUL_WEB_AUTH]",
            completion: .file())
        var auth: String?
        @Option(
            help:
                "Let operators save the files of completed downloads, which are in DIR, or of one queue with QUEUE=DIR. May be repeated.",
            completion: .directory)
        var serveFiles: [String] = []
        @Option(help: "What comes before every path behind a reverse proxy, like /haul.") var prefix = ""
        @Option(
            help:
                "A name by which browsers reach this server, besides localhost and addresses. May be repeated. [HAUL_WEB_HOST, with commas]"
        )
        var host: [String] = []
        @Option(
            help:
                "Serve aria2's JSON-RPC at /jsonrpc for this queue, which --queue names; the secret is a token of --auth."
        )
        var aria2: String?
        @Flag(
            help:
                "Take a client's address from X-Forwarded-For, for limits and the log. All clients must come through a proxy that sets it."
        )
        var forwardedFor = false
        @Option(help: "The format of the log's lines: logfmt or json. [HAUL_LOG_FORMAT]")
        var logFormat: LogFormat?

        func run() async throws {
            var configuration = try settings()
            let format = try format()
            let output = LogOutput(descriptor: STDERR_FILENO, format: format)
            defer { output.flush() }
            configuration.log = Logger(label: "haul", factory: { _ in LineLogHandler(format, to: output) })
            try await serve(configuration)
        }

        private func format() throws -> LogFormat {
            if let logFormat { return logFormat }
            guard let text = Environment.text("HAUL_LOG_FORMAT") else { return .logfmt }
            guard let format = LogFormat(rawValue: text) else {
                throw ExitStatus.printing(.usage, "HAUL_LOG_FORMAT must be logfmt or json, not \"\(text)\"")
            }
            return format
        }

        private func serve(_ configuration: WebConfiguration) async throws {
            let server = WebServer(configuration)
            let manager = ServiceManager()
            let work = Task {
                try await server.run { addresses in
                    for address in addresses {
                        Terminal.printError("haul: the page is at http://\(address)\(configuration.prefix)/")
                    }
                    if configuration.accounts == nil {
                        Terminal.printError(
                            "haul: there is no sign-in (--auth): everyone who reaches this address is an operator")
                    }
                    manager.ready("the page is at \(addresses.map { "http://\($0)" }.joined(separator: " "))")
                }
            }
            let signals = Task {
                for await _ in Signals.terminations() {
                    manager.stopping("closing connections")
                    work.cancel()
                }
            }
            // This task needs Swift's thread pool. If the pool hangs, the messages stop, and systemd restarts the
            // service.
            let watchdog = Task {
                guard let interval = manager.watchdog else { return }
                while (try? await Task.sleep(for: interval / 3)) != nil { manager.alive("serving") }
            }
            defer {
                signals.cancel()
                watchdog.cancel()
            }
            do { try await work.value } catch let error as ServerError {
                throw ExitStatus.printing(error.mayPass ? .jobFailed : .usage, error.description)
            } catch is CancellationError {}
        }

        private func settings() throws -> WebConfiguration {
            var common = CommonOptions()
            common.redis = redis
            common.queue = nil
            common.json = false
            let names = queue.isEmpty ? [CommonOptions.queueOfEnvironment ?? "default"] : queue
            var queues: [QueueName] = []
            for text in names {
                guard let name = QueueName(text) else {
                    throw ExitStatus.printing(
                        .usage, "\"\(text)\" is not a valid queue name: use \(QueueName.rule)"
                    )
                }
                if !queues.contains(name) { queues.append(name) }
            }
            let addresses = try listen.map { text in
                guard let address = ListenAddress(text) else {
                    throw ExitStatus.printing(
                        .usage,
                        "--listen must be an IP address and a port, like 127.0.0.1:8484, or unix:/PATH, not \"\(text)\""
                    )
                }
                return address
            }
            var result = WebConfiguration(redis: try common.url(), queues: queues, addresses: addresses)
            result.prefix = prefix.hasSuffix("/") ? String(prefix.dropLast()) : prefix
            result.hosts =
                host.isEmpty
                ? (Environment.text("HAUL_WEB_HOST") ?? "").split(whereSeparator: { ", ".contains($0) }).map(
                    String.init)
                : host
            result.trustsForwardedFor = forwardedFor
            result.version = Version.text
            if let aria2 {
                guard let name = QueueName(aria2) else {
                    throw ExitStatus.printing(.usage, "--aria2: \"\(aria2)\" is not a valid queue name")
                }
                result.aria2 = name
            }
            for (queue, directory) in try directories(of: queues) { result.files[queue] = directory }
            if let path = try auth ?? Environment.protection("HAUL_WEB_AUTH") {
                result.accounts = try accounts(path)
            }
            if let problem = result.problem { throw ExitStatus.printing(.usage, problem) }
            return result
        }

        /// The directories of `--serve-files`. One that names no queue is for all queues that have none of their own.
        private func directories(of queues: [QueueName]) throws -> [QueueName: SourceDirectory] {
            var directories: [QueueName: SourceDirectory] = [:]
            var shared: SourceDirectory?
            for text in serveFiles {
                let parts = text.split(separator: "=", maxSplits: 1).map(String.init)
                let queue = parts.count == 2 ? queues.first { $0.text == parts[0] } : nil
                do throws(Failure) {
                    let directory = try SourceDirectory(queue == nil ? text : parts[1])
                    if let queue { directories[queue] = directory } else { shared = directory }
                } catch {
                    throw ExitStatus.printing(
                        error.code == .io ? .jobFailed : .usage, "--serve-files: \(error.message)")
                }
            }
            for queue in queues where directories[queue] == nil { directories[queue] = shared }
            return directories
        }

        private func accounts(_ path: String) throws -> Accounts {
            guard let text = SettingsFile.text(of: path) else {
                throw ExitStatus.printing(.usage, "--auth \(path): \(String(cString: strerror(errno)))")
            }
            var status = stat()
            if stat(path, &status) == 0, status.st_mode & S_IFMT == S_IFREG, status.st_mode & S_IROTH != 0 {
                Terminal.printError(
                    "haul: --auth \(path): every user of this machine can read the hashes: chmod o-r \(path)")
            }
            do { return try Accounts(text) } catch {
                throw ExitStatus.printing(.usage, "--auth \(path): \(error)")
            }
        }
    }

    struct HashPassword: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "hash-password", abstract: "Make a line for haul web --auth FILE.",
            discussion: "The password is read from standard input. With --token a bearer token is made and printed.")

        @Argument(help: "The user's name, or what the token is for.") var name: String
        @Option(help: "viewer or operator.") var role = "viewer"
        @Flag(help: "Make a bearer token instead of a user with a password.") var token = false

        func run() throws {
            guard let role = Role(rawValue: role) else {
                throw ExitStatus.printing(.usage, "--role must be viewer or operator, not \"\(role)\"")
            }
            guard !name.isEmpty, !name.hasPrefix("#"),
                name.utf8.allSatisfy({ $0 > 32 && $0 != 127 && $0 != UInt8(ascii: ":") })
            else {
                throw ExitStatus.printing(
                    .usage, "a name must not have spaces or a colon, or begin with #, unlike \"\(name)\"")
            }
            if token {
                let token = Hexadecimal.text(Random.bytes(24))
                Terminal.printError("haul: the token, which is shown only now: \(token)")
                return Terminal.line("\(name) \(role.rawValue) \(Accounts.hash(token: token))")
            }
            let password = try Password.read("Password for \(name): ")
            if let problem = PasswordHash.problem(of: password) { throw ExitStatus.printing(.usage, problem) }
            Terminal.line("\(name) \(role.rawValue) \(PasswordHash(password: password).text)")
        }
    }
}
