import HaulBus
import HaulContract
import HaulHTTPServer
import HaulRedis
import HaulTerminal

/// What `haul up` has started, from the first program to the end of all. One task uses it.
final class Launch {
    private enum Event: Sendable {
        case redisAnswers
        /// The worker is registered, or the page accepts connections.
        case ready
        case ended(ChildProgram)
        case signal
    }

    private let directory: PrivateDirectory
    private let queue: QueueName
    private let options: Up
    private let page: String
    private let events: AsyncStream<Event>
    private let feed: AsyncStream<Event>.Continuation
    private let manager = ServiceManager()
    private var readiness: ReadinessSocket?
    private var own: PrivateRedis?
    private var children: [ChildProgram] = []
    private var readyCount = 0

    /// - Parameter address: Where the page listens.
    init(_ directory: PrivateDirectory, _ queue: QueueName, _ address: ListenAddress, _ options: Up) {
        page = "http://\(address)/"
        (self.directory, self.queue, self.options) = (directory, queue, options)
        (events, feed) = AsyncStream.makeStream(of: Event.self)
    }

    /// Returns when a signal has ended all programs.
    ///
    /// - Throws: `ExitStatus`; the reason has been printed.
    func run() async throws {
        let feed = feed
        let signals = Task { for await _ in Signals.terminations() { feed.yield(.signal) } }
        defer {
            signals.cancel()
            readiness?.close()
        }
        do {
            try await start()
            let failed = try await firstEnd()
            let ending = failed?.ending
            await stop()
            if let failed, let ending {
                throw ExitStatus.printing(.jobFailed, "\(failed.name) \(ending); haul up has stopped the others")
            }
        } catch {
            await stop()
            throw error
        }
    }

    private func start() async throws {
        guard options.redis == nil else { return try await startServices() }
        let redis = PrivateRedis(directory: directory, port: options.exposeRedis ? options.redisPort : nil)
        own = redis
        let feed = feed
        children.append(try await redis.start { feed.yield(.ended($0)) })
        Task {
            await redis.answers()
            feed.yield(.redisAnswers)
        }
    }

    /// The program that has ended by itself; nil after a signal.
    private func firstEnd() async throws -> ChildProgram? {
        for await event in events {
            switch event {
            case .redisAnswers: try await startServices()
            case .ready:
                readyCount += 1
                guard readyCount == 2 else { continue }
                report()
                manager.ready("the page is at \(page)")
            case .ended(let child):
                if child.name == PrivateRedis.program {
                    Terminal.printError("haul: \(directory.path)/redis.log says why redis-server has ended")
                }
                return child
            case .signal:
                manager.stopping("putting running jobs back in the queue")
                return nil
            }
        }
        return nil
    }

    /// Starts the worker and the page.
    private func startServices() async throws {
        let feed = feed
        let readiness = try ReadinessSocket(directory.readiness) { feed.yield(.ready) }
        self.readiness = readiness
        let environment = [
            "HAUL_REDIS": url, "HAUL_QUEUE": queue.text, "NOTIFY_SOCKET": readiness.name, "WATCHDOG_USEC": "",
        ]
        var worker = [
            "/proc/self/exe", "worker", "--root", directory.root, "--upload-from", directory.root, "--slots",
            options.slots,
        ]
        // The name lets the next start take this one's jobs back at once. In a Redis of others it might not be unique.
        if own != nil { worker += ["--name", "up"] }
        if options.allowPrivate { worker.append("--allow-private") }
        worker += options.allowAddress.flatMap { ["--allow-address", $0] }
        let page = [
            "/proc/self/exe", "web", "--listen", options.listen, "--auth", directory.accounts, "--serve-files",
            directory.root,
        ]
        children.append(
            try await ChildProgram.start("the worker", worker, environment: environment) { feed.yield(.ended($0)) })
        children.append(
            try await ChildProgram.start("the page", page, environment: environment) { feed.yield(.ended($0)) })
    }

    /// Ends the worker before Redis, so that it can put its running jobs back in the queue.
    private func stop() async {
        for child in children.dropFirst(own == nil ? 0 : 1) { await child.stop(within: .seconds(30)) }
        if own != nil { await children.first?.stop(within: .seconds(60)) }
    }

    private var url: String { own?.url ?? options.redis ?? "" }

    private func report() {
        let printed = own?.printedURL ?? url
        if options.json {
            return Terminal.line(
                JSON.object([
                    ("page", JSON.quoted(page)), ("password", JSON.quoted(directory.password)),
                    ("redis", JSON.quoted(printed)), ("root", JSON.quoted(directory.root)),
                    ("user", JSON.quoted(PrivateDirectory.user)),
                ]))
        }
        let client = own?.client ?? "redis-cli -u \(PrivateRedis.quoted(url))"
        // The id of a job decides which partition it belongs to.
        let push =
            queue.partitionCount == nil
            ? "\(client) LPUSH 'haul:{\(queue)}:jobs' '{\"url\":\"https://example.org/file.bin\"}'"
            : "HAUL_REDIS=\(PrivateRedis.quoted(url)) haul push --queue '\(queue)' https://example.org/file.bin"
        Terminal.write(
            """
            Haul is up. Ctrl-C stops it, and the next haul up goes on with the same data.
              page   \(page)  user \(PrivateDirectory.user), password \(directory.password)
              files  \(directory.root)
              push   \(push)
              watch  HAUL_REDIS=\(PrivateRedis.quoted(url)) haul top

            """)
    }
}
