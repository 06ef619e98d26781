/// What a worker does, by its hash. Commands, pages and programs all use this.
package enum WorkerState: String, Sendable, CaseIterable {
    case working
    /// It claims no more jobs, because an operator asked for that.
    case quiet
    /// It returns its jobs to the queue and ends.
    case ending
    /// It was silent for longer than its lease, so its jobs run elsewhere.
    case lost

    /// In ms; for a worker whose hash has no `lease`.
    private static let lease: Int64 = 8000

    /// - Parameters:
    ///   - record: The worker's hash.
    ///   - now: Unix ms by Redis' clock.
    package init(_ record: [String: String], now: Int64) {
        let seen = Self.seen(record)
        let lease = record["lease"].flatMap { Int64($0) } ?? Self.lease
        self = now - seen > lease ? .lost : record["state"].flatMap(Self.init(rawValue:)) ?? .working
    }

    /// Whether the worker's disk has no more than what `--keep-free` reserves. Then it claims no jobs, whatever its state.
    package static func hasNoSpace(_ record: [String: String]) -> Bool { Int64(field: record["free"]) == 0 }

    /// When the worker was last seen, unix ms; 0 if its hash has no valid time.
    package static func seen(_ record: [String: String]) -> Int64 {
        Int64(field: record["seen"]) ?? 0
    }
}
