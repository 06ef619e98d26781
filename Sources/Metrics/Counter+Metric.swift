package import CoreMetrics

extension Counter {
    package convenience init(_ metric: Metric, _ labels: [(String, String)] = [], in registry: MetricsRegistry) {
        self.init(label: metric.name, dimensions: labels, factory: registry)
    }
}

extension Timer {
    package convenience init(_ metric: Metric, _ labels: [(String, String)] = [], in registry: MetricsRegistry) {
        self.init(label: metric.name, dimensions: labels, factory: registry)
    }

    package func record(_ duration: Duration) {
        let (seconds, attoseconds) = duration.components
        recordNanoseconds(seconds * 1_000_000_000 + attoseconds / 1_000_000_000)
    }

    package func record(since start: ContinuousClock.Instant) { record(.now - start) }
}
