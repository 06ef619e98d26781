import CoreMetrics
import HaulMetrics
import HaulTestSupport
import Testing

@Suite struct ExpositionTests {
    private let registry = MetricsRegistry(Metric.workerMetrics + Metric.queueMetrics)

    @Test("the samples of a metric follow its HELP and TYPE lines") func format() async {
        Counter(.claims, [("queue", "one")], in: registry).increment(by: 2)
        Counter(.fenced, [("queue", "one")], in: registry).increment()
        Counter(.claims, [("queue", "two")], in: registry).increment()
        #expect(
            await registry.exposition().text == """
                # HELP haul_claims_total Jobs that the worker has claimed.
                # TYPE haul_claims_total counter
                haul_claims_total{queue="one"} 2
                haul_claims_total{queue="two"} 1
                # HELP haul_fenced_total Runs that the worker lost because their leases had ended.
                # TYPE haul_fenced_total counter
                haul_fenced_total{queue="one"} 1

                """)
    }

    @Test("two counters with the same name and labels add to one series") func sharedSeries() async {
        for _ in 0..<3 { Counter(.claims, [("queue", "one")], in: registry).increment() }
        #expect(await registry.exposition().text.contains("haul_claims_total{queue=\"one\"} 3\n"))
    }

    @Test("a bucket of a histogram counts the values up to its bound") func histograms() async {
        let timer = CoreMetrics.Timer(.tickDuration, [("queue", "one")], in: registry)
        for duration in [Duration.microseconds(500), .milliseconds(1), .milliseconds(3), .seconds(60)] {
            timer.record(duration)
        }
        let text = await registry.exposition().text
        for line in [
            "_bucket{queue=\"one\",le=\"0.001\"} 2", "_bucket{queue=\"one\",le=\"0.0025\"} 2",
            "_bucket{queue=\"one\",le=\"0.005\"} 3", "_bucket{queue=\"one\",le=\"10\"} 3",
            "_bucket{queue=\"one\",le=\"+Inf\"} 4", "_sum{queue=\"one\"} 60.0045", "_count{queue=\"one\"} 4",
        ] {
            #expect(text.contains("haul_tick_duration_seconds\(line)\n"), "\(line)")
        }
    }

    @Test("no count is lost if many threads count at once") func concurrency() async {
        let counter = Counter(.claims, [("queue", "one")], in: registry)
        let timer = CoreMetrics.Timer(.commitDuration, in: registry)
        await withDiscardingTaskGroup { group in
            for _ in 0..<8 {
                group.addTask {
                    for _ in 0..<10_000 {
                        counter.increment()
                        timer.record(.milliseconds(2))
                    }
                }
            }
        }
        let text = await registry.exposition().text
        #expect(text.contains("haul_claims_total{queue=\"one\"} 80000\n"))
        #expect(text.contains("haul_commit_duration_seconds_count 80000\n"))
        #expect(text.contains("haul_commit_duration_seconds_sum 160\n"))
    }

    @Test("any text is a valid label value, because it is escaped") func labels() async throws {
        var exposition = Exposition()
        exposition.add(.hostConnectionLimit, [("host", "a\"b\\c\nd=e{f},ü")], 1)
        exposition.add(.slots, .infinity)
        #expect(exposition.text.contains("{host=\"a\\\"b\\\\c\\nd=e{f},ü\"} 1\n"))
        #expect(exposition.text.contains("haul_slots +Inf\n"))
        try await Promtool.check(exposition.text)
    }

    @Test("each metric is declared once and follows the naming conventions of Prometheus") func conventions()
        async throws
    {
        let metrics = Metric.workerMetrics + Metric.queueMetrics
        #expect(Set(metrics.map(\.name)).count == metrics.count)
        var exposition = Exposition()
        for metric in metrics where metric.kind != .histogram {
            exposition.add(metric, metric.labels.map { (name: $0, value: "x") }, 1)
        }
        for metric in metrics where metric.kind == .histogram {
            CoreMetrics.Timer(metric, metric.labels.map { ($0, "x") }, in: registry).record(.seconds(1))
        }
        try await Promtool.check(exposition.text)
        try await Promtool.check(await registry.exposition().text)
    }

    @Test("a process exports its own CPU time, memory and file descriptors") func process() async throws {
        var exposition = Exposition()
        ProcessMetrics.add(to: &exposition)
        for name in ["cpu_seconds_total", "resident_memory_bytes", "open_fds", "max_fds", "start_time_seconds"] {
            #expect(exposition.text.contains("\nprocess_\(name) "), "\(name)")
        }
        try await Promtool.check(exposition.text)
    }
}
