import ArgumentParser
import Glibc
import HaulBus
import HaulContract
import HaulFileStore
import HaulHTTP
import HaulRedis
import HaulWorker
import Logging

struct Get: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Download here and now: a private Redis and a worker inside this process.",
        discussion: "Run again after Ctrl-C it continues. Nothing is left running.")

    @Argument(help: "URLs.") var urls: [String]
    @Option(
        name: [.customShort("o", allowingJoined: true), .customLong("output")],
        help: "A file; or a directory: one that is there, or a name that ends in /.")
    var output: String?
    @Option(name: [.customShort("d", allowingJoined: true), .long], help: "The directory; made if it is not there.")
    var directory: String?
    @Option(help: "What is done with another file that is in the way: reuse, overwrite, rename or fail.")
    var ifExists = Job.IfExists.reuse
    @Option(help: "sha256:…, sha512:…, sha1:… or md5:….") var checksum: String?
    @Option(help: "Bytes per second over all downloads.") var limitRate: Int64?
    @Option(help: "disk: files survive a loss of power. process: only the death of processes.")
    var durability = Durability.disk
    @Option(
        name: [.customShort("x", allowingJoined: true), .long], help: "The most connections for one file, 1 to 16.")
    var connections = 16
    @Flag(name: [.customShort("R"), .long], help: "Give files the time of the server's Last-Modified.")
    var remoteTime = false
    @Option(help: CommonOptions.proxyHelp) var proxy: String?
    @Option(name: .customLong("ca"), help: "A file of certificate authorities to trust besides the system's.")
    var certificates: String?
    @OptionGroup var client: ClientCertificateOptions
    @Flag(help: "One JSON object per line.") var json = false

    func validate() throws {
        if let output {
            guard !output.isEmpty else { throw ValidationError("-o names neither a file nor a directory.") }
            guard urls.count == 1 || Self.isDirectory(output) else {
                throw ValidationError(
                    "-o names one file, but several URLs are given: end it in / for a directory, or use -d.")
            }
            guard directory == nil || !output.hasPrefix("/") && !output.hasSuffix("/") else {
                throw ValidationError("-d names the directory: -o beside it is a file's name in it.")
            }
            let place = directory.map { $0 + "/" + output } ?? output
            guard !Self.isOfAnotherKind(place) else {
                throw ValidationError("\(place) is there, and neither a file nor a directory: name one that is.")
            }
        }
        guard limitRate.map((1...JobField.largest).contains) ?? true else {
            throw ValidationError("--limit-rate must be a whole number of bytes per second, 1 or more.")
        }
        guard (1...16).contains(connections) else { throw ValidationError("--connections must be from 1 to 16.") }
    }

    func run() async throws {
        let (root, path) = try place()
        let elements = try urls.map { url in
            var members = [("url", JSON.quoted(url))]
            if let path { members.append(("path", JSON.quoted(path))) }
            if ifExists != .reuse { members.append(("if_exists", JSON.quoted(ifExists.rawValue))) }
            if let checksum { members.append(("checksum", JSON.quoted(checksum))) }
            do {
                return try Element(try JSON(JSON.object(members)))
            } catch {
                throw ExitStatus.because(.usage, "\(error)")
            }
        }
        let state = try Self.stateDirectory(root)
        // The lock falls with this process: two runs never share a private Redis.
        let lock = open(state + "/lock", O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard lock >= 0, flock(lock, LOCK_EX | LOCK_NB) == 0 else {
            throw ExitStatus.because(
                .usage,
                errno == EWOULDBLOCK
                    ? "another haul get is at work in \(root): wait for it, or use another directory"
                    : "\(state)/lock cannot be locked: \(String(cString: strerror(errno))); set XDG_STATE_HOME to another directory"
            )
        }
        let redis = try await PrivateRedis.start(in: state)
        do {
            try await download(elements, root: root, redis: redis)
        } catch {
            await redis.stop()
            throw error
        }
        await redis.stop()
    }

    private func download(_ elements: [Element], root: String, redis: PrivateRedis) async throws {
        var configuration = WorkerConfiguration(redis: redis.url, root: root, name: "get")
        configuration.addressPolicy = .unrestricted
        configuration.durability = durability
        configuration.keepsRemoteTime = remoteTime
        configuration.limitRate = limitRate
        configuration.proxy = proxy ?? CommonOptions.environment("HAUL_PROXY")
        configuration.certificateAuthorities = certificates
        configuration.clientCertificate = client.certificate
        configuration.connections = connections
        // Many small files wait for round trips, not for the network: these many hide them.
        configuration.slots = 128
        configuration.connectionsPerHost = 50
        let log = Logger(label: "haul", factory: { _ in ComplaintHandler() })
        let worker: Worker
        do { worker = try Worker(configuration, log: log) } catch { throw ExitStatus.because(.usage, error.message) }
        try await redis.untilReady()
        let queue = Queue(.default, redis: Redis(redis.url, name: "haul-get"))
        let pushed = try await reaching { () throws(RedisError) in try await queue.push(now: elements) }
        var follower = Follower(queue, elements, json: json, pushed: pushed)
        follower.isOwn = true
        let work = Task { try await worker.run() }
        let following = Task { [follower] in try await follower.follow() }
        let signals = Task {
            for await _ in Signals.terminations() { following.cancel() }
        }
        defer { signals.cancel() }
        let result = await following.result
        work.cancel()
        do { try await work.value } catch let error as RedisError { throw ExitStatus.because(error) }
        await queue.redis.close()
        if following.isCancelled {
            if !json { Terminal.complain("interrupted: run the same command again to continue") }
            throw ExitStatus.interrupted
        }
        try result.get()
    }

    /// The root directory and the job's path: both from -o, the current directory without it.
    private func place() throws -> (root: String, path: String?) {
        if let directory { return (try Self.absolute(directory), output) }
        guard let output else { return (try Self.absolute("."), nil) }
        guard !Self.isDirectory(output) else { return (try Self.absolute(output), nil) }
        let parts = output.split(separator: "/", omittingEmptySubsequences: false)
        let folder = parts.dropLast().joined(separator: "/")
        return (
            try Self.absolute(output.contains("/") ? (folder.isEmpty ? "/" : folder) : "."), parts.last.map(String.init)
        )
    }

    /// As its user sees it: what ends in "/" is meant as one, and what is one need not.
    private static func isDirectory(_ path: String) -> Bool {
        var status = stat()
        return path.hasSuffix("/") || stat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFDIR
    }

    /// A device, a pipe or a socket: a file that takes its place would be in everybody's way.
    private static func isOfAnotherKind(_ path: String) -> Bool {
        var status = stat()
        return stat(path, &status) == 0 && ![S_IFREG, S_IFDIR].contains(status.st_mode & S_IFMT)
    }

    /// The directory's path without links; the directory and those above it are made if they are not there.
    private static func absolute(_ path: String) throws -> String {
        makeDirectories(path, mode: 0o777)
        guard let real = realpath(path, nil) else {
            throw ExitStatus.because(
                .usage, "\(path): \(String(cString: strerror(errno))); name a directory that can be made")
        }
        defer { free(real) }
        return String(cString: real)
    }

    /// Makes `path` and what is missing above it; whoever uses it finds out what could not be made.
    private static func makeDirectories(_ path: String, mode: mode_t) {
        var made = path.hasPrefix("/") ? "/" : ""
        for part in path.split(separator: "/") {
            made += part + "/"
            mkdir(made, mode)
        }
    }

    /// Where the private Redis keeps its data: one directory for each root.
    private static func stateDirectory(_ root: String) throws -> String {
        let places = [
            CommonOptions.environment("XDG_STATE_HOME"), CommonOptions.environment("HOME").map { $0 + "/.local/state" },
            getpwuid(getuid()).map { String(cString: $0.pointee.pw_dir) + "/.local/state" },
        ]
        // Relative ones are to be ignored, says the XDG specification; /tmp would be anybody's.
        guard let home = places.compactMap(\.self).first(where: { $0.hasPrefix("/") }) else {
            throw ExitStatus.because(.usage, "there is no home directory: set XDG_STATE_HOME to a directory of yours")
        }
        let path = home + "/haul/" + SHA1.hex(root).prefix(16)
        makeDirectories(path, mode: 0o700)
        guard access(path, W_OK) == 0 else {
            throw ExitStatus.because(.usage, "\(path) cannot be written: set XDG_STATE_HOME to a directory that can")
        }
        return path
    }
}
