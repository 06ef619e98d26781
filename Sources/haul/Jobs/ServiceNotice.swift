import HaulBus
import HaulTerminal

/// Tells a person who waits for jobs why none starts: no worker serves the queue, or the queue starts none.
struct ServiceNotice {
    private let queue: Queue
    /// The reason that was printed last; nil while jobs start.
    private var reason: String?

    init(_ queue: Queue) { self.queue = queue }

    /// Prints a reason that is new, and once that it has ended. Without permission to read the workers or the settings it
    /// prints nothing.
    mutating func refresh() async {
        guard let count = try? await queue.workerCount() else { return }
        let found = count == 0 ? Stats.unserved(queue) : await hold()
        defer { reason = found }
        if let found, found != reason {
            Terminal.printError("haul: \(found); waiting")
        } else if found == nil, reason != nil {
            Terminal.printError("haul: a worker serves the queue \(queue.name) now")
        }
    }

    /// Why the queue's settings let no job start.
    private func hold() async -> String? {
        guard let limits = try? await queue.startLimits() else { return nil }
        let paused = limits.count { $0.isPaused }
        if paused > 0 {
            let scope = paused < limits.count ? " in \(paused) of \(limits.count) partitions" : ""
            return "the queue \(queue.name) is paused\(scope) (haul queue resume --queue \(queue.name.quoted))"
        }
        return limits.contains { $0.maxRunning == 0 }
            ? "max_running of the queue \(queue.name) is 0 (haul queue limit)" : nil
    }
}
