import HaulBus
import HaulContract
import HaulTerminal

extension Bottleneck {
    /// What it is, for people.
    ///
    /// - Parameter now: Unix ms by Redis' clock.
    func text(at now: Int64) -> String {
        let jobs = limit.map { $0 == 1 ? "1 job" : "\($0) jobs" } ?? ""
        let speed = Units.speed(limit ?? 0)
        switch cause {
        case .paused: return "the queue is paused" + (name.map { " in \($0)" } ?? "")
        case .noWorker: return "no worker takes jobs"
        case .slots: return limit == 1 ? "the only slot is taken" : "all \(limit ?? 0) slots of the workers are taken"
        case .maxRunning: return "max_running: \(jobs) at once"
        case .starts: return "starts: \(starts ?? "")"
        case .rate: return "the rate of the queue: \(speed)"
        case .host where limit == nil: return "\(host): the connections of the workers are in use"
        case .host: return "\(host): \(jobs) at once"
        case .backoff: return "\(host): backs off for \(Age.text((until ?? now) - now))"
        case .hostStarts: return "\(host): starts \(starts ?? "")"
        case .hostRate: return "\(host): \(speed)"
        // This user of Redis may not read limits.
        case .group where limit == nil && starts == nil: return "group \(name ?? ""): a limit"
        case .group: return "group \(name ?? ""): " + (starts.map { "starts \($0)" } ?? "\(jobs) at once")
        case .groupRate: return "group \(name ?? ""): \(speed)"
        case .kind: return "no worker does jobs of the kind \(name ?? "")"
        case .disk: return "there is no space on disk"
        case .store: return "the store does not answer"
        case .gate: return "the gate: --gate-limit files at once, and its own duration"
        case .replicas: return "replicas of Redis have not confirmed the end"
        }
    }

    private var host: String { "host \(name ?? "")" }
}
