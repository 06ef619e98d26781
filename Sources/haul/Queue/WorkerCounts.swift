import HaulBus

/// How many workers serve a queue, by what they do.
struct WorkerCounts {
    private let counts: [WorkerState: Int]
    /// Whether the disks of all workers that could take jobs are full.
    let lackSpace: Bool

    /// - Parameters:
    ///   - workers: The known workers with the fields of their hashes.
    ///   - now: Unix ms by Redis' clock.
    init(_ workers: [(name: String, fields: [String: String])], now: Int64) {
        let byState = Dictionary(grouping: workers) { WorkerState($0.fields, now: now) }
        counts = byState.mapValues(\.count)
        lackSpace = byState[.working]?.allSatisfy { WorkerState.hasNoSpace($0.fields) } ?? false
    }

    subscript(state: WorkerState) -> Int { counts[state] ?? 0 }

    /// The workers that are not lost.
    var alive: Int { counts.reduce(0) { $0 + ($1.key == .lost ? 0 : $1.value) } }

    /// Whether there are workers, of which none claims jobs.
    var noneClaims: Bool { alive > 0 && self[.working] == 0 }

    /// `3 workers, 2 quiet, 1 ending`, and behind that the lost ones.
    var text: String {
        let states = [WorkerState.quiet, .ending, .lost].filter { self[$0] > 0 }.map { state in
            self[state] == alive && alive > 1 && state != .lost
                ? "all \(state.rawValue)" : "\(self[state]) \(state.rawValue)"
        }
        return ([alive == 1 ? "1 worker" : "\(alive) workers"] + states).joined(separator: ", ")
    }
}
