import ArgumentParser
import Glibc
import HaulBus
import HaulContract
import HaulDirect
import HaulFileStore
import HaulHTTP
import HaulHTTPServer
import HaulLogs
import HaulObjectStore
import HaulRedis
import HaulTerminal
import HaulWorker
import Logging

struct WorkerCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "worker", abstract: "Run a worker until SIGTERM, or control one that runs.",
        discussion: "Without a command it runs a worker, which requires --root or --store.",
        subcommands: [QuietWorker.self, ResumeWorker.self])

    @Option(name: .long, help: CommonOptions.redisHelp) var redis: String?
    @Option(
        name: .long,
        help:
            "A queue, NAME, NAME#8 with 8 partitions, NAME=WEIGHT or NAME:FOLDER/, whose files are in that folder; the first has priority. May be repeated. [HAUL_QUEUE]"
    )
    var queue: [String] = []
    @Option(help: "The directory that downloads go to.", completion: .directory) var root: String?
    @Option(help: "The bucket that downloads go to, instead of --root: s3://BUCKET or s3://BUCKET/PREFIX.")
    var store: String?
    @Option(
        help:
            "The directory, or with --store the s3://BUCKET/PREFIX, beneath which uploads may read files; without it they fail.",
        completion: .directory)
    var uploadFrom: String?
    @OptionGroup var bucket: BucketOptions
    @Option(
        help:
            "A bucket whose objects jobs may download, s3://BUCKET or s3://BUCKET/PREFIX; =PROFILE names its credentials. May be repeated."
    )
    var source: [String] = []
    @Option(help: "Memory for bytes that wait to be stored in the bucket, 64M or more.") var storeMemory = ByteCount(
        Int64(ObjectStore.memory))
    @Option(help: "Jobs at once, or unlimited.") var slots = "3"
    @Option(help: "The kinds of jobs to run, like download,request. Other kinds stay in the queue. [all kinds]")
    var kinds: String?
    @Option(help: "The worker's name, unique in the fleet; after a restart it claims its jobs again at once.") var name:
        String?
    @Option(help: "disk: completed files survive a loss of power. process: they survive a crash, but no loss of power.")
    var durability = Durability.disk
    @Option(help: "The permissions of finished files in octal, like 0640; without it 0666 less the umask.")
    var fileMode: String?
    @Flag(help: "Give finished files the time of the server's Last-Modified.") var remoteTime = false
    @Flag(help: "Let no job replace a file that is not its own: if_exists overwrite counts as fail.")
    var noOverwrite = false
    @Flag(help: "Allow the private address ranges.") var allowPrivate = false
    @Option(help: "Allow these addresses, even if they are private. May be repeated.") var allowAddress: [String] = []
    @Option(help: "Seconds without a heartbeat after which a worker's jobs run elsewhere, 2 or more.") var lease =
        8.0
    @Option(help: "Seconds after SIGTERM for returning the running jobs to the queue.") var grace = 10.0
    @Option(help: "Report a job as completed once this many replicas of Redis have its result.") var settleReplicas = 0
    @Option(help: "Bytes per second over all downloads, like 500k or 5M.") var limitRate: ByteCount?
    @Option(help: "The maximum number of connections for one file, 1 to 16, unless its job says otherwise.")
    var connections = 16
    @Option(help: "The maximum number of connections to one host, over all downloads.") var connectionsPerHost = 16
    @Option(help: CommonOptions.proxyHelp) var proxy: String?
    @Option(
        name: .customLong("ca"), help: "A file of certificate authorities to trust besides the system's.",
        completion: .file())
    var certificates: String?
    @OptionGroup var client: ClientCertificateOptions
    @Option(
        help:
            "A secret of webhooks, NAME=FILE; the file has whsec_ and base 64, a second line while it is replaced. May be repeated.",
        completion: .file())
    var webhookSecret: [String] = []
    @Option(help: "The maximum size of a file, in bytes or like 20G.") var maxFileSize: ByteCount?
    @Option(
        help:
            "A command of the shell that sees each downloaded file before it gets its name, and refuses it by exit status 1."
    )
    var gate: String?
    @Option(help: "Commands of --gate at once, 4 unless given.") var gateLimit: Int?
    @Option(help: "Seconds after which a command of --gate is killed and counts as failed, 300 unless given.")
    var gateTimeout: Double?
    @Option(help: "Space on the disk that downloads leave free, in bytes or like 1G.") var keepFree = ByteCount(
        20_000_000)
    @Option(
        help: "trace, debug, info, notice, warning or error.",
        completion: .list(["trace", "debug", "info", "notice", "warning", "error"]))
    var logLevel = "info"
    @Option(help: "Serve /healthz, /readyz and /metrics here: ADDRESS:PORT or unix:/PATH.") var http: String?
    @Flag(help: "Serve the figures of the worker's queues at /metrics as well; requires --http.") var exportQueues =
        false
    @Option(help: "logfmt or json.") var logFormat = LogFormat.logfmt
    @Option(
        help: "A file of settings, with a line \"option = value\" for each of these options. [HAUL_CONFIG]",
        completion: .file())
    var config: String?
    @Flag(help: "Print all settings with their sources, and exit.") var printConfig = false

    func run() async throws {
        let configuration = try configured()
        let address = try address()
        if printConfig { return try printSettings() }
        let format = logFormat
        let output = LogOutput(descriptor: STDERR_FILENO, format: format)
        var log = Logger(label: "haul", factory: { _ in LineLogHandler(format, to: output) })
        guard let level = Logger.Level(rawValue: logLevel) else {
            throw ExitStatus.printing(
                .usage, "--log-level must be trace, debug, info, notice, warning or error, not \"\(logLevel)\"")
        }
        log.logLevel = level
        for doubt in Settings.active?.doubts ?? [] { log.warning("\(doubt)") }
        let worker: Worker
        do { worker = try Worker(configuration, log: log) } catch {
            // A disk may be read-only, or not mounted yet. Then a service manager has to try again.
            throw ExitStatus.printing(error.code == .io ? .jobFailed : .usage, error.message)
        }
        try await WorkerService(
            worker, log: log, output: output, grace: configuration.graceTime, address: address
        ) {
            let arguments = try Settings.complete(Array(CommandLine.arguments.dropFirst()))
            return try Self.reading(arguments).configured()
        }.run()
    }

    private func address() throws -> ListenAddress? {
        try http.map { text in
            guard let address = ListenAddress(text) else {
                throw ExitStatus.printing(
                    .usage, "--http must be an IP address and a port, or unix:/PATH, not \"\(text)\"")
            }
            return address
        }
    }

    /// Parses the arguments of a worker.
    ///
    /// - Throws: `ExitStatus.usage`; the reason has been printed.
    private static func reading(_ arguments: [String]) throws -> WorkerCommand {
        do {
            return try WorkerCommand.parse(Array(arguments.dropFirst()))
        } catch {
            throw ExitStatus.printing(.usage, WorkerCommand.message(for: error))
        }
    }

    private func printSettings() throws {
        guard let settings = Settings.active, let table = OptionTable(of: "worker") else { return }
        Terminal.write(PrintedSettings.text(of: settings, table))
    }
}

extension LogFormat: ExpressibleByArgument {}
