import ArgumentParser

/// What a list is sorted by.
enum JobOrder: String, CaseIterable, ExpressibleByArgument, Sendable {
    case age, size, received, done, speed, eta, name, id, worker, host, error

    /// Whether `one` comes before `other`. Ages, sizes and speeds are in descending order, texts and `eta` in ascending
    /// order. Equal jobs are in the order of their ids, so that the order is stable.
    func precedes(_ one: JobRow, _ other: JobRow) -> Bool {
        switch self {
        case .age: Self.least(one.since ?? .max, other.since ?? .max, one, other)
        case .size: Self.least(-(one.total ?? -1), -(other.total ?? -1), one, other)
        case .received: Self.least(-one.received, -other.received, one, other)
        case .done: Self.least(-(one.fraction ?? -1), -(other.fraction ?? -1), one, other)
        case .speed: Self.least(-one.speed, -other.speed, one, other)
        case .eta: Self.least(one.eta ?? .max, other.eta ?? .max, one, other)
        case .name: Self.least(one.name, other.name, one, other)
        case .id: one.id < other.id
        case .worker: Self.least(one.worker, other.worker, one, other)
        case .host: Self.least(one.host, other.host, one, other)
        case .error: Self.least(one.error, other.error, one, other)
        }
    }

    private static func least<T: Comparable>(_ a: T, _ b: T, _ one: JobRow, _ other: JobRow) -> Bool {
        a == b ? one.id < other.id : a < b
    }
}
