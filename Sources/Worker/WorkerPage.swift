import HaulBus
import HaulMetrics

/// The responses of a worker over HTTP: docs/operate/metrics.md. It knows no sockets.
package struct WorkerPage: Sendable {
    package struct Response: Sendable {
        package let status: Int
        package let type: String
        package let text: String
    }

    private let metrics: WorkerMetrics

    /// A loop or a queue's tick that has stood still for this long does not recover by itself.
    private static let standstill: Duration = .seconds(30)
    /// A Redis that has answered no tick for this long counts as gone.
    private static let silence: Duration = .seconds(10)

    init(_ metrics: WorkerMetrics) { self.metrics = metrics }

    /// The worker has started, and does not shut down.
    package var isWorking: Bool { metrics.phase == .working }

    /// The process need not be restarted.
    package var isHealthy: Bool { unhealthy.isEmpty }

    /// The worker's state in a few words, for a person.
    package var status: String {
        switch metrics.phase {
        case .starting: return "waiting for Redis"
        case .ending: return "returning the running jobs to the queue"
        case .working:
            let slots = metrics.slots.limit.map { " of \($0) slots" } ?? " slots"
            return "\(metrics.slots.taken)\(slots) taken"
                + (metrics.slots.hasShortage ? "; the store is short of space" : "")
        }
    }

    /// nil if there is nothing at this path.
    package func respond(to path: String) async -> Response? {
        switch path {
        case "/healthz": return Self.response(unhealthy)
        case "/readyz": return Self.response(await unready)
        case "/metrics":
            return Response(status: 200, type: Exposition.contentType, text: await metrics.exposition().text)
        default: return nil
        }
    }

    private static func response(_ reasons: [String]) -> Response {
        Response(
            status: reasons.isEmpty ? 200 : 503, type: "text/plain; charset=utf-8",
            text: reasons.isEmpty ? "ok\n" : reasons.map { $0 + "\n" }.joined())
    }

    /// Why the process should be restarted.
    private var unhealthy: [String] {
        var reasons = metrics.sinceTurns.filter { $0.ago > Self.standstill }.map {
            "the loop \($0.loop) has not turned for \($0.ago.components.seconds) s"
        }
        guard metrics.phase == .working else { return reasons }
        for queueServer in metrics.queueServers {
            guard let ago = queueServer.metrics.sinceTickStart, ago > Self.standstill else { continue }
            reasons.append(
                "the queue \(queueServer.queue.name) has had no tick for \(ago.components.seconds) s")
        }
        return reasons
    }

    /// Why the worker takes no jobs now.
    private var unready: [String] {
        get async {
            switch metrics.phase {
            case .starting: return ["the worker is starting: it is not registered with Redis yet"]
            case .ending: return ["the worker is ending"]
            case .working: break
            }
            var reasons: [String] = []
            if metrics.isQuiet { reasons.append("the worker is quiet: haul worker resume lets it take jobs again") }
            for queueServer in metrics.queueServers {
                let isAnswered = queueServer.metrics.sinceTickReply.map { $0 <= Self.silence } ?? false
                if !isAnswered { reasons.append("Redis does not answer for the queue \(queueServer.queue.name)") }
            }
            switch await metrics.storeFault.value() {
            case .some(.some(let fault)): reasons.append("the store cannot be used: \(fault)")
            case .some(.none):
                if metrics.slots.hasShortage { reasons.append("the store had no space for a recent file") }
            case .none: reasons.append("the store does not answer")
            }
            return reasons
        }
    }
}
