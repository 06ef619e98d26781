import HaulBus
import HaulContract
import HaulTerminal

/// `haul stats --history`: the last hour by the minute, and two days by the hour.
enum StatsHistory {
    static func print(_ queue: Queue, json: Bool) async throws {
        let (minutes, now) = try await queue.history()
        if json {
            for minute in minutes { Terminal.line(line(minute, of: queue)) }
            return
        }
        if minutes.isEmpty {
            return Terminal.line("nothing has happened in the last \(Queue.historyHours) hours")
        }
        table("The last hour, by the minute", minutes, now: now, step: 60_000, count: 60)
        table("The last two days, by the hour", minutes, now: now, step: 3_600_000, count: Queue.historyHours)
    }

    /// One minute as an object. Each event has a member, which may be 0.
    private static func line(_ minute: HistoryMinute, of queue: Queue) -> String {
        var object = JSONObject()
        object.set("queue", queue.name.text)
        object.set("at", minute.start)
        for name in Queue.historyNames { object.set(name, minute[name]) }
        return object.text
    }

    /// A row for each kind of event: its sum, and one sign for each step of time. A row fits into 80 columns.
    private static func table(_ title: String, _ minutes: [HistoryMinute], now: Int64, step: Int64, count: Int) {
        let last = now / step
        let first = last - Int64(count) + 1
        Terminal.line("\(title):")
        for name in Queue.historyNames {
            var values = [Int64](repeating: 0, count: count)
            for minute in minutes where minute.start / step >= first && minute.start / step <= last {
                values[Int(minute.start / step - first)] += minute[name]
            }
            let sum = values.reduce(0, +)
            if sum == 0, name != "completed" { continue }
            let text = name == "received" ? Units.bytes(sum) : String(sum)
            let bars = Sparkline.text(values.map(Double.init), width: count, isUnicode: Columns.showsUnicode)
            Terminal.line("\(name.padded(to: 9)) \(text.aligned(to: 9)) \(bars)")
        }
    }
}
