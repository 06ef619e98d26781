package import CoreMetrics
import Synchronization

/// The counters and histograms of a process, and the collectors that run only at a scrape.
///
/// It is a factory of swift-metrics, so that code which counts does not depend on Prometheus. It makes only metrics
/// that are declared as a `Metric`.
package final class MetricsRegistry: MetricsFactory {
    /// Adds samples that are computed at each scrape.
    package typealias Collector = @Sendable (inout Exposition) async -> Void

    private struct Series: Sendable {
        let metric: Metric
        let labels: Exposition.Labels
        let cell: any Cell
    }

    private struct State: Sendable {
        var series: [Series] = []
        /// The index in `series`, by the series' name and labels.
        var indexes: [String: Int] = [:]
        var collectors: [Collector] = []
    }

    private let metrics: [String: Metric]
    private let state = Mutex(State())

    /// - Parameter metrics: All metrics that the factory may make. To make another one is a programming error, and
    ///   traps.
    package init(_ metrics: [Metric]) {
        self.metrics = Dictionary(metrics.map { ($0.name, $0) }) { first, _ in first }
    }

    package func addCollector(_ collector: @escaping Collector) { state.withLock { $0.collectors.append(collector) } }

    /// Runs all collectors, and adds all counters and histograms: the samples of one scrape.
    package func exposition() async -> Exposition {
        let (series, collectors) = state.withLock { ($0.series, $0.collectors) }
        var exposition = Exposition()
        for collector in collectors { await collector(&exposition) }
        for series in series { series.cell.add(to: &exposition, series.metric, series.labels) }
        return exposition
    }

    // MARK: MetricsFactory

    package func makeCounter(label: String, dimensions: [(String, String)]) -> any CounterHandler {
        cell(label, dimensions) { _ in CounterCell() }
    }

    package func makeTimer(label: String, dimensions: [(String, String)]) -> any TimerHandler {
        cell(label, dimensions) { HistogramCell(buckets: $0.buckets) }
    }

    package func makeRecorder(label: String, dimensions: [(String, String)], aggregate: Bool) -> any RecorderHandler {
        NOOPMetricsHandler.instance
    }

    package func destroyCounter(_ handler: any CounterHandler) {}
    package func destroyTimer(_ handler: any TimerHandler) {}
    package func destroyRecorder(_ handler: any RecorderHandler) {}

    /// The cell of a series. All calls with the same name and labels get the same cell.
    private func cell<C: Cell>(_ name: String, _ labels: [(String, String)], _ make: (Metric) -> C) -> C {
        guard let metric = metrics[name] else { preconditionFailure("the metric \(name) is not declared") }
        let key = ([name] + labels.flatMap { [$0.0, $0.1] }).joined(separator: "\u{0}")
        return state.withLock { state in
            if let index = state.indexes[key], let known = state.series[index].cell as? C { return known }
            let new = make(metric)
            state.indexes[key] = state.series.count
            state.series.append(
                Series(metric: metric, labels: labels.map { (name: $0.0, value: $0.1) }, cell: new))
            return new
        }
    }
}
