import ArgumentParser
import Glibc
import HaulContract
import HaulHTTP
import HaulTerminal

/// A limit of bytes per second, which may depend on the time of day: `2M`, or `full 22:00-06:00, 2M`.
struct RateSchedule: Sendable, Equatable, ExpressibleByArgument {
    private struct Rule: Sendable, Equatable {
        /// nil for no limit.
        let rate: Int64?
        /// Minutes after midnight; nil for all day.
        let from: Int?
        let to: Int?

        func isFor(_ minute: Int) -> Bool {
            guard let from, let to else { return true }
            // 22:00-06:00 goes past midnight.
            return from <= to ? (from..<to).contains(minute) : minute >= from || minute < to
        }
    }

    private let rules: [Rule]

    init?(argument: String) {
        var rules: [Rule] = []
        for part in argument.split(separator: ",", omittingEmptySubsequences: false) {
            // A unit may follow a space: "5 MB".
            var words = part.split(separator: " ").map(String.init)
            var times: [Int]?
            if let last = words.last, last.contains(":") {
                times = last.split(separator: "-", omittingEmptySubsequences: false).map(Self.minutes)
                    .reduce([]) { sum, next in next.flatMap { minute in sum.map { $0 + [minute] } } }
                guard times?.count == 2 else { return nil }
                words.removeLast()
            }
            let text = words.joined(separator: " ")
            let rate = text == "full" ? nil : Units.count(text)
            guard text == "full" || rate != nil else { return nil }
            rules.append(Rule(rate: rate, from: times?[0], to: times?[1]))
        }
        guard !rules.isEmpty else { return nil }
        self.rules = rules
    }

    private static func minutes(_ text: Substring) -> Int? {
        let parts = text.split(separator: ":", omittingEmptySubsequences: false).map { Int($0) }
        guard parts.count == 2, let hour = parts[0], let minute = parts[1], (0...24).contains(hour),
            (0...59).contains(minute)
        else { return nil }
        return hour * 60 + minute
    }

    /// Bytes per second at this minute of the day; nil without a limit. The first rule that fits counts.
    func rate(at minute: Int) -> Int64? { rules.first { $0.isFor(minute) }?.rate ?? nil }

    var isConstant: Bool { rules.count == 1 && rules[0].from == nil }

    /// Whether each rate is one that a bucket can have.
    var isValid: Bool { rules.allSatisfy { $0.rate.map { (1...JobField.maxInteger).contains($0) } ?? true } }

    /// A bucket with the rate of this time.
    var bucket: TokenBucket {
        let bucket = TokenBucket()
        apply(to: bucket)
        return bucket
    }

    /// Sets the bucket to the rate of this time, by this host's clock.
    func apply(to bucket: TokenBucket) {
        var (now, parts) = (time(nil), tm())
        localtime_r(&now, &parts)
        guard let rate = rate(at: Int(parts.tm_hour) * 60 + Int(parts.tm_min)) else { return bucket.removeLimit() }
        // A bucket without a limit has endless credit, which `setRate` would keep.
        if bucket.bytesPerSecond == .max {
            bucket.grantLease(bytesPerSecond: rate, until: .max)
        } else {
            bucket.setRate(bytesPerSecond: rate)
        }
    }
}
