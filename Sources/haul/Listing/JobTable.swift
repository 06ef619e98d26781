import HaulBus
import HaulContract
import HaulTerminal

/// A list of jobs for people.
enum JobTable {
    static func lines(_ rows: [JobRow], now: Int64, width: Int?) -> [String] {
        var table = Table([
            .init(title: "ID", minWidth: 10, rank: 10),
            .init(title: "STATE", rank: 10, color: color(ofState:)),
            .init(title: "DONE", isNumber: true, rank: 7),
            .init(title: "SIZE", isNumber: true, rank: 6),
            .init(title: "SPEED", isNumber: true, rank: 5),
            .init(title: "ETA", isNumber: true, rank: 4),
            .init(title: "AGE", isNumber: true, rank: 8),
            .init(title: "TRY", isNumber: true, rank: 2),
            .init(title: "WORKER", minWidth: 6, rank: 3),
            .init(title: "WHY", minWidth: 24, rank: 9),
            .init(title: "FILE OR URL", minWidth: 12, keepsEnd: true, rank: 9),
            .init(title: "MESSAGE", minWidth: 24, rank: 1),
        ])
        for row in rows {
            let isActive = row.state == .running || row.state == .scheduled || row.state == .paused
            table.add([
                row.id, row.state.rawValue, isActive ? row.percent : "",
                row.total.map(Units.bytes) ?? (row.received > 0 ? Units.bytes(row.received) : ""),
                row.state == .running ? Units.speed(row.speed) : "", row.eta.map(Units.duration) ?? "",
                row.age(at: now), row.attempt > 0 ? String(row.attempt) : "",
                row.state == .running || row.state == .failed ? row.worker : "", row.reason, row.name, row.message,
            ])
        }
        return table.lines(width: width, isColored: width != nil && Terminal.isColored)
    }

    /// Red, green, yellow and cyan; queued jobs have the colour of other text.
    @Sendable private static func color(ofState state: String) -> Int? {
        switch JobState(rawValue: state) {
        case .failed, .cancelled: 31
        case .completed: 32
        case .paused, .scheduled: 33
        case .running: 36
        case .queued, nil: nil
        }
    }
}
