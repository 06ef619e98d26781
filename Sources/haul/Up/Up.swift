import ArgumentParser
import Glibc
import HaulHTTPServer
import HaulTerminal

/// The whole product in one process tree: a Redis of its own, a worker and the page.
struct Up: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "up", abstract: "Run a worker, the page and a Redis of their own until SIGTERM.",
        discussion: """
            It prints the page's address, the password of the user admin, and how to push a job. All data is kept in \
            ROOT/.haul, so that the next haul up goes on where this one stopped. Settings of the worker may be given by \
            environment variables, as for haul worker: HAUL_MAX_FILE_SIZE, HAUL_CONFIG.
            """)

    @Option(help: "The directory that files go to. It is made if it is not there.", completion: .directory)
    var root: String
    @Option(help: "Where the page listens: ADDRESS:PORT or PORT.") var listen = "127.0.0.1:8484"
    @Option(
        help:
            "Use this Redis instead of starting one. @FILE names a file with the URL, which hides a password in it."
    )
    var redis: String?
    @Flag(help: "Let programs on this machine reach the started Redis, by a port of loopback and the password.")
    var exposeRedis = false
    @Option(help: "The port for --expose-redis.") var redisPort = 6379
    @Option(name: .long, help: "The queue. [HAUL_QUEUE, else default]") var queue: String?
    @Option(help: "Jobs at once, or unlimited.") var slots = "3"
    @Flag(help: "Allow the private address ranges.") var allowPrivate = false
    @Option(help: "Allow these addresses, whatever they are. May be repeated.") var allowAddress: [String] = []
    @Flag(help: "Print what is printed as one JSON object.") var json = false

    func run() async throws {
        guard let address = ListenAddress(listen), address.port != 0 else {
            throw ExitStatus.printing(.usage, "--listen must be ADDRESS:PORT or PORT, not \"\(listen)\"")
        }
        guard (1...65535).contains(redisPort) else {
            throw ExitStatus.printing(.usage, "--redis-port must be a number from 1 to 65535, not \(redisPort)")
        }
        if redis != nil, exposeRedis {
            throw ExitStatus.printing(
                .usage, "--expose-redis opens the Redis that haul up starts, and --redis names another")
        }
        var common = CommonOptions()
        var options = self
        if let redis, redis.hasPrefix("@") {
            options.redis = try CommonOptions.text(ofFile: String(redis.dropFirst()), namedBy: "--redis")
        }
        (common.redis, common.queue, common.json) = (options.redis, queue, json)
        _ = try common.url()
        try await Launch(try PrivateDirectory(root: root), try common.queueName(), address, options).run()
    }
}
