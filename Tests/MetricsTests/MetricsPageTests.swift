import Foundation
import HaulMetrics
import Testing

@Suite struct MetricsPageTests {
    /// Operators write alerts and dashboards by docs/operate/metrics.md.
    @Test("docs/operate/metrics.md has each metric and no other") func page() throws {
        let page = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../docs/operate/metrics.md")
        let text = try String(contentsOf: page, encoding: .utf8)
        var named: [String: String] = [:]
        for row in text.split(separator: "\n") where row.hasPrefix("| `haul_") {
            let cells = row.split(separator: "|").map { $0.trimmingCharacters(in: .whitespaces) }
            for name in cells[0].split(separator: ",") {
                named[name.trimmingCharacters(in: CharacterSet(charactersIn: " `"))] = cells[1]
            }
        }
        let declared = (Metric.ofWorker + Metric.ofQueue).filter { $0.name.hasPrefix("haul_") }
        #expect(named == Dictionary(uniqueKeysWithValues: declared.map { ($0.name, $0.kind.rawValue) }))
        for metric in Metric.ofWorker where metric.name.hasPrefix("process_") {
            #expect(text.contains("`\(metric.name)`"), "\(metric.name)")
        }
    }
}
