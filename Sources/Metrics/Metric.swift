/// The name, type and meaning of one metric, by the conventions of Prometheus. docs/operate/metrics.md is made from them.
package struct Metric: Sendable, Hashable {
    package enum Kind: String, Sendable { case counter, gauge, histogram }

    package let name: String
    package let kind: Kind
    /// The names of its labels, without the `le` of a histogram.
    package let labels: [String]
    /// The text of the HELP line.
    package let help: String
    /// The upper bounds of a histogram's buckets in seconds, ascending, without `+Inf`. Empty for all other kinds.
    package let buckets: [Double]

    private init(_ name: String, _ kind: Kind, _ labels: [String], _ help: String, buckets: [Double] = []) {
        (self.name, self.kind, self.labels, self.help, self.buckets) = (name, kind, labels, help, buckets)
    }

    static func counter(_ name: String, by labels: String..., help: String) -> Metric {
        Metric(name, .counter, labels, help)
    }

    static func gauge(_ name: String, by labels: String..., help: String) -> Metric {
        Metric(name, .gauge, labels, help)
    }

    static func histogram(
        _ name: String, by labels: String..., buckets: [Double] = latencies, help: String
    ) -> Metric {
        Metric(name, .histogram, labels, help, buckets: buckets)
    }

    /// Buckets for round trips and syncs, in seconds.
    static let latencies = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]
    /// Buckets for whole jobs, in seconds.
    static let jobDurations = [0.01, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 1800, 7200, 43200]

    package static func == (one: Metric, other: Metric) -> Bool { one.name == other.name }
    package func hash(into hasher: inout Hasher) { hasher.combine(name) }
}
