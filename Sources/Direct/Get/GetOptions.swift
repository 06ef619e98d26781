package import ArgumentParser
import HaulActivities
import HaulContract
import HaulFileStore
import HaulTerminal

/// The options for requests to servers.
package struct RequestOptions: ParsableArguments {
    @Option(
        name: [.customShort("H", allowingJoined: true), .long],
        help:
            "A header, \"Name: value\", for the URL's own server only, or @FILE for one from each line. May be repeated."
    )
    private var header: [String] = []
    @Option(
        name: [.customShort("u", allowingJoined: true), .long],
        help:
            "USER[:PASSWORD], sent as Basic with the first request, or as Digest if the server requires that; without a password you are asked for it."
    )
    package var user: String?
    @Flag(help: "Send the password only once the server asks, and only as Digest, never as Basic.") var digest = false
    @Flag(
        help: "Send the password only once the server asks: as Digest, or as Basic if the server offers nothing better."
    )
    var anyauth = false
    @Option(help: "Send this token: Authorization: Bearer TOKEN.") package var bearer: String?
    @Flag(help: "Read the user and password of each host from ~/.netrc.") var netrc = false
    @Option(help: "Read the user and password of each host from this file.", completion: .file()) var netrcFile: String?
    @Option(
        name: [.customShort("b", allowingJoined: true), .long],
        help: "Cookies, \"NAME=VALUE; …\", or a file of them in Netscape's format. May be repeated.",
        completion: .file())
    package var cookie: [String] = []
    @Option(
        help:
            "Write all cookies, those of files of --cookie and those that servers set, into this file in Netscape's format.",
        completion: .file(), transform: Terminal.outputPath)
    package var saveCookies: String?
    @Option(
        name: [.customShort("A", allowingJoined: true), .long], help: "The User-Agent. [Haul/<version>]")
    package var userAgent: String?
    @Option(
        help:
            "A proxy for all downloads, http:// or socks5h://. [HAUL_PROXY, else http_proxy, https_proxy, all_proxy, no_proxy]"
    )
    var proxy: String?
    @Flag(help: "Ignore the proxies of the environment, HAUL_PROXY included.") var noProxy = false
    @Option(
        name: .customLong("ca"), help: "A file of certificate authorities to trust besides the system's.",
        completion: .file())
    var certificates: String?
    @OptionGroup var client: ClientCertificateOptions
    @OptionGroup var network: NetworkOptions

    package init() {}

    /// The names of the given options that only this process can follow, and a worker cannot.
    package var connectionOptionNames: [String] {
        [
            ("--proxy", proxy != nil), ("--no-proxy", noProxy), ("--ca", certificates != nil),
            ("--client-cert", client.file != nil), ("--save-cookies", saveCookies != nil), ("--digest", digest),
            ("--anyauth", anyauth),
            ("-b with a file", cookie.contains { !$0.contains("=") }),
        ].filter(\.1).map(\.0) + network.names
    }

    /// The header fields of `--header`, and of the files that it names.
    ///
    /// - Throws: `ExitStatus.usage` if a file cannot be read; the reason has been printed.
    package func headers() throws -> [String] {
        try header.flatMap { text in
            guard text.hasPrefix("@") else { return [text] }
            return try TextFile.lines(of: String(text.dropFirst())).filter { !$0.isEmpty }
        }
    }

    /// Whether an option is given whose value not every server may get.
    var hasSecrets: Bool { user != nil || bearer != nil || !header.isEmpty || !cookie.isEmpty }

    var authentication: Authentication { digest ? .digestOnly : anyauth ? .whenAsked : .atOnce }

    package func validate() throws {
        guard bearer == nil || !digest && !anyauth else {
            throw ValidationError(
                "--bearer sends a token with the first request, which --digest and --anyauth forbid: give one of them.")
        }
        guard user == nil || bearer == nil else {
            throw ValidationError("--user and --bearer are two ways to sign in: give one of them.")
        }
        guard bearer?.isEmpty != true, user?.isEmpty != true else {
            throw ValidationError("--user and --bearer must not be empty.")
        }
    }
}

/// The options for the transfer of bytes.
struct TransferOptions: ParsableArguments {
    @Option(
        name: [.customShort("j", allowingJoined: true), .customLong("parallel")],
        help: "How many downloads run at once, 1 to 1000.")
    var parallel = 50
    @Option(
        name: [.customShort("x", allowingJoined: true), .long],
        help: "The maximum number of connections for one file, 1 to \(Self.maxConnections).")
    var connections = 16
    @Option(
        help:
            "Bytes per second over all downloads, like 500k or 5M, or by the time of day: 'full 22:00-06:00, 2M'. Local time, unless a zone follows: '22:00-06:00 Europe/Berlin'.",
        transform: RateSchedule.option)
    var limitRate: RateSchedule?
    @Option(
        help: "Attempts after the first. [5; none where no server has answered yet]") var retries: Int?
    @Option(
        name: [.customShort("m", allowingJoined: true), .long],
        help: "Seconds within which each file must be complete. Otherwise the same command continues it later.")
    var maxTime: Double?
    @Option(help: "Bytes per second, like 10k: a slower download fails, measured over 30 seconds.") var minSpeed:
        ByteCount?
    @Option(help: "Seconds for DNS, connection and TLS together. [10]") var connectTimeout: Double?
    @Option(help: "Seconds without a byte after which a connection is closed. [30]") var timeout: Double?
    @Option(help: "disk: files survive a loss of power. process: they survive a crash, but no loss of power.")
    var durability = Durability.disk
    @Flag(name: [.customShort("R"), .long], help: "Give files the time of the server's Last-Modified.")
    var remoteTime = false

    /// More would open more sockets to one host than any server expects of one person.
    private static let maxConnections = 64

    func validate() throws {
        guard (1...Self.maxConnections).contains(connections) else {
            throw ValidationError("--connections must be from 1 to \(Self.maxConnections), not \(connections)")
        }
        guard (1...1000).contains(parallel) else {
            throw ValidationError("--parallel must be from 1 to 1000, not \(parallel)")
        }
        guard retries.map({ (0...1000).contains($0) }) ?? true else {
            throw ValidationError("--retries must be from 0 to 1000, not \(retries ?? 0)")
        }
        guard minSpeed.map({ (1...JobField.maxInteger).contains($0.bytes) }) ?? true else {
            throw ValidationError("--min-speed must be 1 byte per second or more.")
        }
        for (name, seconds) in [
            ("--connect-timeout", connectTimeout), ("--timeout", timeout), ("--max-time", maxTime),
        ] {
            guard seconds.map({ (0.1...86400).contains($0) }) ?? true else {
                throw ValidationError("\(name) must be from 0.1 to 86400 seconds, not \(seconds ?? 0)")
            }
        }
    }
}

extension ExistingPolicy: ExpressibleByArgument {}

extension Durability: ExpressibleByArgument {}
