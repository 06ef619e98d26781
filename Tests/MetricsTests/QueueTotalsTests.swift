import Testing

@testable import HaulMetrics

@Suite struct QueueTotalsTests {
    private func sample(_ totals: QueueTotals, _ event: String) -> String? {
        var exposition = Exposition()
        totals.add(to: &exposition, [("queue", "q")])
        let name = "haul_queue_events_total{queue=\"q\",event=\"\(event)\"} "
        return exposition.text.split(separator: "\n").first { $0.hasPrefix(name) }.map {
            String($0.dropFirst(name.count))
        }
    }

    @Test("a total that a failover reduced a little does not change, and a total that restarted is followed")
    func takenBack() {
        var totals = QueueTotals()
        #expect(sample(totals, "completed") == nil)
        totals.update(with: [:])
        #expect(sample(totals, "completed") == "0")
        for (read, expected) in [(1000, "1000"), (997, "1000"), (999, "1000"), (1001, "1001"), (400, "400"), (0, "0")] {
            totals.update(with: ["completed": Int64(read)])
            #expect(sample(totals, "completed") == expected, "\(read)")
        }
        totals.update(with: ["completed": 8])
        totals.update(with: [:])
        #expect(sample(totals, "completed") == "0")
    }

    @Test("only the most frequent error codes get labels of their own, and every failure is counted") func codes() {
        var totals = QueueTotals()
        var counts: [String: Int64] = ["failed": 0]
        for number in 0..<150 { counts["failed http_\(number)"] = Int64(number + 1) }
        totals.update(with: counts)
        var exposition = Exposition()
        totals.add(to: &exposition, [("queue", "q")])
        let lines = exposition.text.split(separator: "\n").filter { $0.hasPrefix("haul_queue_failures_total{") }
        #expect(lines.count == 101)
        #expect(lines.contains("haul_queue_failures_total{queue=\"q\",code=\"http_149\"} 150"))
        #expect(lines.contains("haul_queue_failures_total{queue=\"q\",code=\"other\"} \((1...50).reduce(0, +))"))
    }
}
