import HaulContract

/// Failed jobs with the same error at the same host.
package struct FailureGroup: Sendable {
    /// What is known of a failed job.
    package struct Failure: Sendable {
        let id: String
        let error: String
        let host: String
        /// When the job failed, unix ms.
        let timestamp: Int64
        let isRetryable: Bool

        package init(id: String, error: String?, host: String, timestamp: Int64, isRetryable: Bool) {
            (self.id, self.error, self.host) = (id, error ?? "unknown", host)
            (self.timestamp, self.isRetryable) = (timestamp, isRetryable)
        }
    }

    /// Failures of the last hour are counted in intervals of five minutes.
    private static let interval: Int64 = 300_000
    private static let intervals = 12
    /// How long a failure counts as recent, in ms.
    private static let recent: Int64 = 1_200_000

    package let error: String
    package let host: String
    package let count: Int
    /// How many of them failed within the last 20 minutes.
    package let recentCount: Int
    /// A retry of at least one of them may help.
    package let isRetryable: Bool
    /// The job that failed last, and when, unix ms.
    package let example: String
    package let newest: Int64
    /// How many failed in each five minutes of the last hour, the oldest first.
    package let hour: [Int]

    private init(_ failures: [Failure], _ newest: Failure, now: Int64) {
        (error, host, count) = (newest.error, newest.host, failures.count)
        (example, self.newest) = (newest.id, newest.timestamp)
        recentCount = failures.count { $0.timestamp > now - Self.recent }
        isRetryable = failures.contains(where: \.isRetryable)
        hour = Self.histogram(of: failures.map(\.timestamp), now: now)
    }

    /// The `limit` largest groups, the largest first. Groups of equal size are sorted by error and host, so that they keep
    /// their order from one reading to the next.
    package static func groups(of failures: [Failure], now: Int64, limit: Int) -> [FailureGroup] {
        struct Key: Hashable { let error, host: String }
        let groups = Dictionary(grouping: failures) { Key(error: $0.error, host: $0.host) }.values
        let all = groups.compactMap { failures in
            failures.max { ($0.timestamp, $0.id) < ($1.timestamp, $1.id) }
                .map { FailureGroup(failures, $0, now: now) }
        }
        return Array(
            all.sorted { ($1.count, $0.error, $0.host) < ($0.count, $1.error, $1.host) }.prefix(limit))
    }

    /// The number of `times` in each five minutes of the last hour, the oldest first.
    package static func histogram(of times: some Sequence<Int64>, now: Int64) -> [Int] {
        var counts = [Int](repeating: 0, count: intervals)
        for time in times {
            let age = Int(max(0, now - time) / interval)
            if age < intervals { counts[intervals - 1 - age] += 1 }
        }
        return counts
    }

    /// The members of its JSON.
    package static let members: [JSONMember] = [
        JSONMember("error", .text, "The error of all of them.", isAlways: true),
        JSONMember("host", .text, "The host of all of them.", isAlways: true),
        JSONMember("count", .integer, "How many there are among the newest 1000 failures.", isAlways: true),
        JSONMember("recent", .integer, "How many of them failed within the last 20 minutes.", isAlways: true),
        JSONMember("retryable", .flag, "Whether a retry of one of them may help.", isAlways: true),
        JSONMember("newest", .integer, "Unix milliseconds at which the last of them failed.", isAlways: true),
        JSONMember("example", .id, "The job that failed then.", isAlways: true),
        JSONMember(
            "hour", .integers, "How many of them failed in each five minutes of the last hour, the oldest first.",
            isAlways: true),
    ]

    package var json: String {
        var json = JSONObject()
        json.set("error", error)
        json.set("host", host)
        json.set("count", count)
        json.set("recent", recentCount)
        json.set("retryable", isRetryable)
        json.set("newest", newest)
        json.set("example", example)
        json.set("hour", json: "[\(hour.map(String.init).joined(separator: ","))]")
        return json.text
    }
}
