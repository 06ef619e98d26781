import HaulRedis

/// The limits and defaults that the fleet has to keep, and the jobs that began under them.
struct FleetLimits {
    /// What a worker may use of a rate limit.
    struct Lease {
        var inUse: Int64 = 0
        var end: Int64 = 0
    }

    /// A limit, and since when it has this value.
    struct Limit {
        var value: Double
        var since: Int64
    }

    /// The name of the queue's own limits.
    static let queueWide = "*"
    static let names = [queueWide, "h0", "h1"] + groups.map { "group:" + $0 }
    /// The groups of some of the jobs. The first one may have limits.
    static let groups = ["g0", "g1", "g2"]

    /// Jobs per second.
    var starts: [String: Limit] = [:]
    /// Bytes per second.
    var rates: [String: Limit] = [:]
    /// How many jobs of a group may run, by `group:` and its name.
    var running: [String: Int] = [:]
    /// The defaults that each claim should have.
    var defaults: [String: String] = [:]
    /// When jobs began, by the name of the limit.
    private var begun: [String: [Int64]] = [:]

    /// Records the value of a limit; nil if there is none. A new value counts from now on.
    static func record(_ value: Double?, as name: String, in limits: inout [String: Limit], at now: Int64) {
        if let value {
            if limits[name]?.value != value { limits[name] = Limit(value: value, since: now) }
        } else {
            limits[name] = nil
        }
    }

    /// Records the value of a limit of starts. Jobs that began before a change do not count, not even in the same
    /// millisecond.
    mutating func recordStarts(_ value: Double?, as name: String, at now: Int64) {
        let before = starts[name]?.value
        Self.record(value, as: name, in: &starts, at: now)
        if starts[name]?.value != before { begun[name] = [] }
    }

    /// Records that a job begins. Returns what is wrong if more jobs have begun than a limit allows.
    ///
    /// - Parameter names: The host of the job and, if it has one, its group.
    mutating func begin(on names: [String], at now: Int64) -> String? {
        var wrong: String?
        for name in [Self.queueWide] + names {
            begun[name, default: []].append(now)
            begun[name]?.removeAll { $0 < now - 10_000 }
            guard let limit = starts[name] else { continue }
            for window in [1000, 10_000] as [Int64] {
                let first = max(limit.since, now - window)
                let count = begun[name, default: []].count { $0 >= first }
                // As many jobs as a fifth of a second allows, and one more, may begin at once.
                let allowed = Int(((Double(now - first) + 200) / 1000 * limit.value).rounded(.down)) + 1
                if count > allowed {
                    wrong = "\(name): \(count) jobs began in \(now - first) ms, but at most \(allowed) may"
                }
            }
        }
        return wrong
    }
}
