import HaulActivities
import HaulContract
import HaulExecutors
import HaulFileStore
import HaulHTTP
import HaulObjectStore
import HaulStorage
import HaulTerminal

/// What all downloads of one `haul get`, or all uploads of one `haul put`, share.
struct TransferSettings: Sendable {
    let stores: GetStores
    private let engine: TransferEngine
    private let buckets: BucketSources?
    private let hosts: HostLimits
    private let limit: TokenBucket?
    private let transfer: TransferOptions
    private let cookies: GetCookies
    private let authentication: Authentication
    private(set) var cookieFile: CookieFile?

    /// Seconds for DNS, connection and TLS together. The time is short, because a person waits.
    static let connectTimeout = 10.0
    /// Seconds without a byte after which a connection is given up.
    static let stallTimeout = 30.0
    /// Downloads of small files mostly wait for round trips. So many connections hide the latency.
    static let connectionsPerHost = 50

    /// The defaults of hosts; nil without a file of them.
    let configuration: GetConfiguration?

    init(
        _ request: RequestOptions, _ transfer: TransferOptions, _ bucket: BucketOptions? = nil,
        _ defaults: GetConfiguration? = nil
    ) throws {
        self.transfer = transfer
        self.configuration = defaults
        do throws(Failure) {
            if let file = request.certificates { try CertificateStore.check(file) }
            try request.client.certificate?.check()
            var configuration = TransferEngine.Configuration()
            configuration.policy = .unrestricted
            configuration.userAgent = request.userAgent ?? "Haul/\(Version.text)"
            configuration.certificateAuthorities = request.certificates
            request.network.apply(to: &configuration)
            configuration.clientCertificate = request.client.certificate
            if let proxy = request.proxy ?? (request.noProxy ? nil : Environment.text("HAUL_PROXY")) {
                configuration.proxy = proxy
            } else if !request.noProxy {
                configuration.proxyEnvironment = ProxyEnvironment(Environment.text)
            }
            for proxy in [configuration.proxy].compactMap(\.self) + (configuration.proxyEnvironment?.named ?? []) {
                try TransferEngine.check(proxy: proxy)
            }
            engine = TransferEngine(configuration: configuration)
        } catch { throw ExitStatus.printing(.usage, error.message) }
        cookies = try GetCookies(request.cookie)
        cookieFile = request.saveCookies.map { [cookies] in CookieFile($0, known: cookies.stored) }
        authentication = request.authentication
        limit = transfer.limitRate?.bucket
        hosts = HostLimits(maxPerHost: max(Self.connectionsPerHost, transfer.connections))
        buckets = bucket.map { bucket in
            var options = ObjectStore.Options()
            options.certificateAuthorities = request.certificates
            return BucketSources([], options: options, other: { try? bucket.address(of: $0, isSource: true) })
        }
        stores = GetStores(transfer, bucket, certificates: request.certificates)
    }

    /// Sets the limit of rate that holds at this time of the day. To be called each second or so.
    func updateRate() {
        guard let schedule = transfer.limitRate, !schedule.isConstant, let limit else { return }
        schedule.apply(to: limit)
    }

    /// The seconds that each transfer may take; nil without a limit.
    var maxTime: Double? { transfer.maxTime }

    /// Bytes per second below which a download fails; nil without a limit.
    var minSpeed: Int64? { transfer.minSpeed?.bytes }

    /// The record of the responses to one transfer. nil if no option needs it, because it costs time in each small
    /// download.
    ///
    /// - Parameter isNeeded: The caller reads the record.
    func record(isNeeded: Bool, trace: (@Sendable (String) -> Void)?) -> TransferRecord? {
        isNeeded || trace != nil || cookieFile != nil ? TransferRecord(cookieFile, trace: trace) : nil
    }

    /// Writes the file of `--save-cookies`.
    ///
    /// - Throws: `ExitStatus.jobFailed`; the reason has been printed.
    func saveCookies() throws { try cookieFile?.save() }

    /// Records cookies beside those that servers have set for `others`, so that one file gets all of them.
    mutating func shareCookieFile(of others: TransferSettings) { cookieFile = others.cookieFile }

    /// The executor of all downloads: the thread that libcurl runs on.
    var executor: any TaskExecutor { engine.executor }

    /// Whether checkpoints have to survive a loss of power.
    var isDurable: Bool { transfer.durability == .disk }

    func context(_ store: any Store) -> ActivityContext {
        var context = ActivityContext(
            store: store, engine: engine, hosts: hosts, connections: transfer.connections,
            connectTimeout: .seconds(transfer.connectTimeout ?? Self.connectTimeout),
            stallTimeout: .seconds(transfer.timeout ?? Self.stallTimeout))
        (context.limit, context.authentication, context.buckets) = (limit, authentication, buckets)
        return context
    }

    func cookies(for item: GetItem) -> CookieJar { item.isForeign ? CookieJar([]) : cookies(for: item.job.urls) }

    func cookies(for urls: [String]) -> CookieJar { cookies.jar(for: urls) }

    /// The failure of a request by http to a port that speaks TLS. Such servers close the connection, and say nothing
    /// that the client could understand; so the port is asked by https.
    ///
    /// - Parameter failure: Why there was no response.
    /// - Returns: nil if the port does not speak TLS, or if the failure has another reason.
    func schemeFailure(_ failure: Failure, of url: String) async -> Failure? {
        guard [.incomplete, .badResponse].contains(failure.code), !failure.isFinal, let address = WebURL(url),
            address.scheme == "http"
        else { return nil }
        var request = HTTPRequest(url: "https://\(address.hostAndPort)/")
        request.method = "HEAD"
        // The failure may have another reason, so its retry should not wait for long.
        (request.connectTimeout, request.stallTimeout) = (.seconds(2), .seconds(2))
        do throws(TransferError) { await (try await engine.start(request)).discard() } catch {
            // The server has a certificate, which need not be a good one.
            guard case .failed(let failure) = error, failure.code == .tls, failure.isFinal else { return nil }
        }
        return Failure(
            .tls, "\(address.hostAndPort) speaks TLS, and \(MaskedURL.keepingQuery(url)) begins with http: give https",
            isFinal: true)
    }

    /// How long to wait before the next attempt; nil if there is none.
    ///
    /// - Parameter failed: The attempts that have failed in a row, without enough progress in between.
    func delay(
        after failure: Failure, _ result: ActivityResult, hasReachedServer: Bool, of job: Job, failed: inout Int
    ) -> Duration? {
        let retries = retries(after: failure, hasReachedServer: hasReachedServer, of: job)
        switch RetryPolicy.judge(failure, after: result, failed: failed, retries: retries) {
        case .end: return nil
        case .retryAfterProgress(let delay):
            failed = 0
            return delay
        case .retry(let delay):
            failed += 1
            return delay
        }
    }

    /// A person waits, so a transfer fails if the server asks for a longer pause (Retry-After).
    private static let maxWait = Duration.seconds(300)

    /// The failure that says when to give the command again; nil if a person would wait so long.
    static func refusal(of wait: Duration, after failure: Failure) -> Failure? {
        guard wait > maxWait else { return nil }
        let time = Units.duration(max(wait, failure.requestedPause ?? .zero).secondsValue)
        return Failure(failure.code, "\(failure.message); run the same command again in \(time)")
    }

    /// The number of retries that a failure allows. If no server has ever answered, the host is most likely mistyped. If
    /// it is slower than `--min-speed`, it was so for half a minute. Then the download fails at once, unless `--retries`
    /// is given.
    func retries(after failure: Failure, hasReachedServer: Bool, of job: Job) -> Int {
        job.retries ?? transfer.retries ?? Self.retries(after: failure, hasReachedServer: hasReachedServer)
    }

    static func retries(after failure: Failure, hasReachedServer: Bool) -> Int {
        let isUnreachable = [.dns, .connect, .tls, .proxy].contains(failure.code)
        return failure.code == .tooSlow || isUnreachable && !hasReachedServer ? 0 : RetryPolicy.defaultRetries
    }
}
