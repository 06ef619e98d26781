import Glibc
import HaulContract
import HaulHTTPServer
import HaulLogs
import HaulRedis
import HaulTerminal
import HaulWorker
import Logging

/// Runs a worker as a service. A signal ends it within its grace time, SIGHUP reloads its settings, and systemd gets
/// its state.
struct WorkerService {
    let worker: Worker
    let log: Logger
    let output: LogOutput
    let grace: Duration
    /// The address of metrics and health; nil if they are not served.
    let address: ListenAddress?
    /// Reads the configuration again. An error that it throws has been printed.
    let configuration: @Sendable () throws -> WorkerConfiguration
    private let manager = ServiceManager()

    init(
        _ worker: Worker, log: Logger, output: LogOutput, grace: Duration, address: ListenAddress?,
        configuration: @escaping @Sendable () throws -> WorkerConfiguration
    ) {
        (self.worker, self.log, self.output, self.grace) = (worker, log, output, grace)
        (self.address, self.configuration) = (address, configuration)
    }

    /// Returns when the worker has ended.
    func run() async throws {
        defer { output.flush() }
        let server = try await serve()
        let work = Task { try await worker.run() }
        let tasks = [Task { await endAtSignals(work) }, Task { await takeSettings() }, Task { await notifyManager() }]
        defer {
            for task in tasks { task.cancel() }
        }
        let result = await work.result
        await server?.stop()
        do { try result.get() } catch let error as RedisError {
            // It was to end, and had not reached Redis yet.
            guard !work.isCancelled else { return }
            throw ExitStatus.printing(error)
        }
    }

    /// Serves metrics and health. It begins before the worker is registered, so that waiting for Redis is visible.
    private func serve() async throws -> HTTPServer? {
        guard let address else { return nil }
        var limits = ServerLimits()
        (limits.connections, limits.streams, limits.body) = (64, 0, 0)
        let page = worker.page
        let server = HTTPServer(limits: limits) { request in
            let text = "text/plain; charset=utf-8"
            guard request.method == "GET" || request.method == "HEAD" else {
                return .respond(
                    ServerResponse(
                        405, fields: [("Allow", "GET, HEAD"), ("Content-Type", text)],
                        body: .bytes(Array("only GET and HEAD are answered here\n".utf8))))
            }
            guard let response = await page.respond(to: request.path) else {
                return .respond(ServerResponse(404, text, "/healthz, /readyz and /metrics are here\n"))
            }
            return .respond(ServerResponse(response.status, response.type, response.text))
        }
        do {
            let bound = try await server.listen(on: address)
            log.info("serving metrics and health", metadata: ["address": "\(bound)"])
        } catch {
            throw ExitStatus.printing(error.mayPass ? .jobFailed : .usage, "--http: \(error)")
        }
        return server
    }

    /// In a terminal SIGHUP ends the worker. Otherwise it reloads the settings.
    private static let isInTerminal = isatty(STDIN_FILENO) == 1

    private func endAtSignals(_ work: Task<Void, any Error>) async {
        for await number in Signals.stream(of: Self.isInTerminal ? [SIGTERM, SIGINT, SIGHUP] : [SIGTERM, SIGINT]) {
            // The second signal ends the process at once. The leases expire, and other workers take over the jobs.
            if work.isCancelled { exitNow(number) }
            manager.stopping("returning the running jobs to the queue")
            work.cancel()
            // A second after the grace time the process ends in any case, even if a disk hangs.
            Task {
                try? await Task.sleep(for: grace + .seconds(1))
                log.warning("the grace time has ended: unsettled jobs run again when their leases end")
                exitNow(number)
            }
        }
    }

    private func exitNow(_ number: Int32) -> Never {
        output.flush()
        _exit(128 + number)
    }

    // MARK: Settings

    private func takeSettings() async {
        guard !Self.isInTerminal else { return }
        for await _ in Signals.stream(of: [SIGHUP]) {
            manager.reloading()
            await reload()
            manager.ready(worker.page.status)
        }
    }

    private func reload() async {
        // A log has lines of its own: what is wrong with the settings is reported in one.
        let (read, sentences) = ExitStatus.collecting(configuration)
        do {
            let (applied, ignored) = try await worker.apply(try read.get())
            log.notice(
                "settings were read again",
                metadata: [
                    "taken": .string(applied.isEmpty ? "nothing new" : applied.joined(separator: " ")),
                    "certificates": "read again",
                ])
            if !ignored.isEmpty {
                log.warning(
                    "settings have changed that need a restart",
                    metadata: ["settings": .string(ignored.joined(separator: " "))])
            }
        } catch {
            let reason = (error as? Failure)?.message ?? sentences.joined(separator: " ")
            log.error("settings stay as they were", metadata: ["reason": .string(reason)])
        }
    }

    // MARK: systemd

    private func notifyManager() async {
        var isReady = false
        while !Task.isCancelled {
            let page = worker.page
            if !isReady, page.isWorking {
                isReady = true
                manager.ready(page.status)
            }
            if manager.watchdog == nil {
                manager.status(page.status)
            } else if page.isHealthy {
                manager.alive(page.status)
            }
            let pause = min((manager.watchdog ?? .seconds(2)) / 2, .seconds(1))
            try? await Task.sleep(for: isReady ? pause : min(pause, .milliseconds(100)))
        }
    }
}
