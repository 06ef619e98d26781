import HaulContract

/// The samples of one scrape, and their text in Prometheus' text format, version 0.0.4.
package struct Exposition: Sendable {
    package static let contentType = "text/plain; version=0.0.4; charset=utf-8"

    package typealias Labels = [(name: String, value: String)]

    /// The metrics in the order of their first samples. The format requires that the samples of a metric stay together.
    private var order: [Metric] = []
    private var samples: [Metric: String] = [:]

    package init() {}

    package mutating func add(_ metric: Metric, _ labels: Labels, _ value: some BinaryInteger) {
        append(metric, "", labels, String(value))
    }

    package mutating func add(_ metric: Metric, _ labels: Labels, _ value: Double) {
        append(metric, "", labels, Self.text(value))
    }

    package mutating func add(_ metric: Metric, _ value: some BinaryInteger) { add(metric, [], value) }

    package mutating func add(_ metric: Metric, _ value: Double) { add(metric, [], value) }

    /// Adds a histogram. `counts` are the numbers of values in each single bucket (not cumulative), the last one for
    /// values above all bounds.
    mutating func add(_ metric: Metric, _ labels: Labels, counts: [Int64], sum: Double) {
        var total: Int64 = 0
        for (bound, count) in zip(metric.buckets + [.infinity], counts) {
            total += count
            append(metric, "_bucket", labels + [("le", Self.text(bound))], String(total))
        }
        append(metric, "_sum", labels, Self.text(sum))
        append(metric, "_count", labels, String(total))
    }

    /// The text of all metrics. The help and the type of a metric stand before its samples.
    package var text: String {
        var text = ""
        for metric in order {
            text += "# HELP \(metric.name) \(metric.help)\n# TYPE \(metric.name) \(metric.kind.rawValue)\n"
            text += samples[metric] ?? ""
        }
        return text
    }

    private mutating func append(_ metric: Metric, _ suffix: String, _ labels: Labels, _ value: String) {
        assert(labels.map(\.name).filter { $0 != "le" } == metric.labels, "\(metric.name) declares other labels")
        if samples[metric] == nil { order.append(metric) }
        var line = metric.name + suffix
        if !labels.isEmpty {
            let pairs = labels.map { "\($0.name)=\"\($0.value.escaped { Self.escapes[$0] })\"" }
            line += "{\(pairs.joined(separator: ","))}"
        }
        samples[metric, default: ""] += "\(line) \(value)\n"
    }

    /// Only these need an escape in a label's value.
    private static let escapes: [Unicode.Scalar: String] = ["\\": "\\\\", "\"": "\\\"", "\n": "\\n"]

    private static func text(_ value: Double) -> String {
        if value == .infinity { return "+Inf" }
        if value == -.infinity { return "-Inf" }
        if value.isNaN { return "NaN" }
        return value == value.rounded() && abs(value) < 1e15 ? String(Int64(value)) : "\(value)"
    }
}
