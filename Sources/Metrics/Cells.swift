import CoreMetrics
import Synchronization

/// The value of one series. Recording a value takes no lock.
protocol Cell: AnyObject, Sendable {
    func add(to exposition: inout Exposition, _ metric: Metric, _ labels: Exposition.Labels)
}

final class CounterCell: Cell, CounterHandler {
    private let value = Atomic<Int64>(0)

    func increment(by amount: Int64) { value.wrappingAdd(amount, ordering: .relaxed) }

    var current: Int64 { value.load(ordering: .relaxed) }

    /// Does nothing: a Prometheus counter starts again from 0 only with its process.
    func reset() {}

    func add(to exposition: inout Exposition, _ metric: Metric, _ labels: Exposition.Labels) {
        exposition.add(metric, labels, current)
    }
}

/// A histogram of durations.
final class HistogramCell: Cell, TimerHandler {
    /// The upper bounds of the buckets in nanoseconds, ascending.
    private let bounds: [Int64]
    /// One counter for each bound, and one for longer durations.
    private let counts: [CounterCell]
    /// The sum of the values, in nanoseconds.
    private let sum = CounterCell()

    /// `buckets` are the upper bounds in seconds, ascending.
    init(buckets: [Double]) {
        bounds = buckets.map { Int64($0 * 1e9) }
        counts = (0...bounds.count).map { _ in CounterCell() }
    }

    func recordNanoseconds(_ duration: Int64) {
        let index = bounds.firstIndex { duration <= $0 } ?? bounds.count
        counts[index].increment(by: 1)
        sum.increment(by: max(0, duration))
    }

    func add(to exposition: inout Exposition, _ metric: Metric, _ labels: Exposition.Labels) {
        exposition.add(metric, labels, counts: counts.map(\.current), sum: Double(sum.current) / 1e9)
    }
}
