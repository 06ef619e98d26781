import Testing

@testable import HaulMetrics

@Suite struct QueueTotalsTests {
    private func told(_ totals: QueueTotals, _ event: String) -> String? {
        var exposition = Exposition()
        totals.add(to: &exposition, [("queue", "q")])
        let name = "haul_queue_events_total{queue=\"q\",event=\"\(event)\"} "
        return exposition.text.split(separator: "\n").first { $0.hasPrefix(name) }.map {
            String($0.dropFirst(name.count))
        }
    }

    @Test(
        "a counter that a failover took back a little stands still until it is passed; one that began anew is believed")
    func takenBack() {
        var totals = QueueTotals()
        #expect(told(totals, "completed") == nil)
        totals.take([:])
        #expect(told(totals, "completed") == "0")
        for (read, told) in [(1000, "1000"), (997, "1000"), (999, "1000"), (1001, "1001"), (400, "400"), (0, "0")] {
            totals.take(["completed": Int64(read)])
            #expect(self.told(totals, "completed") == told, "\(read)")
        }
        totals.take(["completed": 8])
        totals.take([:])
        #expect(told(totals, "completed") == "0")
    }

    @Test("of many codes the most frequent are told apart, and no failure is left out") func codes() {
        var totals = QueueTotals()
        var counts: [String: Int64] = ["failed": 0]
        for number in 0..<150 { counts["failed http_\(number)"] = Int64(number + 1) }
        totals.take(counts)
        var exposition = Exposition()
        totals.add(to: &exposition, [])
        let lines = exposition.text.split(separator: "\n").filter { $0.hasPrefix("haul_queue_failures_total{") }
        #expect(lines.count == 101)
        #expect(lines.contains("haul_queue_failures_total{code=\"http_149\"} 150"))
        #expect(lines.contains("haul_queue_failures_total{code=\"other\"} \((1...50).reduce(0, +))"))
    }
}
