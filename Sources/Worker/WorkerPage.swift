import HaulBus
import HaulMetrics

/// The answers of a worker over HTTP: docs/operate/metrics.md. It knows no sockets.
package struct WorkerPage: Sendable {
    package struct Answer: Sendable {
        package let status: Int
        package let type: String
        package let text: String
    }

    private let figures: WorkerFigures

    /// A loop or a queue's tick that has stood still for this long does not recover by itself.
    private static let standstill: Duration = .seconds(30)
    /// A Redis that has answered no tick for this long counts as gone.
    private static let silence: Duration = .seconds(10)

    init(_ figures: WorkerFigures) { self.figures = figures }

    /// The worker has started, and does not shut down.
    package var isWorking: Bool { figures.phase == .working }

    /// The process need not be restarted.
    package var isHealthy: Bool { unhealthy.isEmpty }

    /// The worker's state in a few words, for a person.
    package var status: String {
        switch figures.phase {
        case .starting: return "waiting for Redis"
        case .ending: return "returning the running jobs to the queue"
        case .working:
            let slots = figures.slots.limit.map { " of \($0) slots" } ?? " slots"
            return "\(figures.slots.taken)\(slots) taken"
                + (figures.slots.isShort ? "; the store is short of space" : "")
        }
    }

    /// nil if there is nothing at this path.
    package func answer(_ path: String) async -> Answer? {
        switch path {
        case "/healthz": return Self.answer(unhealthy)
        case "/readyz": return Self.answer(await unready)
        case "/metrics":
            return Answer(status: 200, type: Exposition.contentType, text: await figures.exposition().text)
        default: return nil
        }
    }

    private static func answer(_ reasons: [String]) -> Answer {
        Answer(
            status: reasons.isEmpty ? 200 : 503, type: "text/plain; charset=utf-8",
            text: reasons.isEmpty ? "ok\n" : reasons.map { $0 + "\n" }.joined())
    }

    /// Why the process should be restarted.
    private var unhealthy: [String] {
        var reasons = figures.sinceTurns.filter { $0.ago > Self.standstill }.map {
            "the loop \($0.loop) has not turned for \($0.ago.components.seconds) s"
        }
        guard figures.phase == .working else { return reasons }
        for queueServer in figures.queueServers {
            guard let ago = queueServer.figures.sinceTickStart, ago > Self.standstill else { continue }
            reasons.append(
                "the queue \(queueServer.queue.name) has not been looked after for \(ago.components.seconds) s")
        }
        return reasons
    }

    /// Why the worker takes no jobs now.
    private var unready: [String] {
        get async {
            switch figures.phase {
            case .starting: return ["the worker is starting: it is not registered with Redis yet"]
            case .ending: return ["the worker is ending"]
            case .working: break
            }
            var reasons: [String] = []
            if figures.isQuiet { reasons.append("the worker is quiet: haul worker resume lets it take jobs again") }
            for queueServer in figures.queueServers {
                let isAnswered = queueServer.figures.sinceTickReply.map { $0 <= Self.silence } ?? false
                if !isAnswered { reasons.append("Redis does not answer for the queue \(queueServer.queue.name)") }
            }
            switch await figures.storeTrouble.answer() {
            case .some(.some(let trouble)): reasons.append("the store cannot be used: \(trouble)")
            case .some(.none):
                if figures.slots.isShort { reasons.append("the store had no space for a recent file") }
            case .none: reasons.append("the store does not answer")
            }
            return reasons
        }
    }
}
