/// What a worker is at, as its record tells: one answer for commands, pages and programs.
package enum WorkerState: String, Sendable, CaseIterable {
    case working
    /// It takes no more jobs, because it was asked to.
    case quiet
    /// It puts its jobs back and ends.
    case ending
    /// It was not heard of for its lease: its jobs run elsewhere.
    case lost

    /// Milliseconds, of a worker that does not tell its own.
    private static let lease: Int64 = 8000

    /// - Parameter now: Unix ms by Redis' clock.
    package init(_ record: [String: String], now: Int64) {
        let seen = Self.seen(record)
        let lease = record["lease"].flatMap { Int64($0) } ?? Self.lease
        self = now - seen > lease ? .lost : record["state"].flatMap(Self.init(rawValue:)) ?? .working
    }

    /// When it was last heard of, unix ms; 0 if its record does not tell a time that can be.
    package static func seen(_ record: [String: String]) -> Int64 {
        min(max(0, record["seen"].flatMap { Int64($0) } ?? 0), 1 << 53)
    }
}
