/// A limit of bytes per second, which may depend on the time of day: `2M`, or `full 22:00-06:00 Europe/Berlin, 2M`.
package struct RateSchedule: Sendable, Equatable {
    private struct Rule: Sendable, Equatable {
        /// nil for no limit.
        let rate: Int64?
        /// Minutes after midnight; nil for all day.
        var times: (from: Int, to: Int)?
        /// The IANA name of the zone of these times; nil for the zone of whoever asks.
        var zone: String?

        static func == (first: Rule, second: Rule) -> Bool {
            first.rate == second.rate && first.times?.from == second.times?.from
                && first.times?.to == second.times?.to && first.zone == second.zone
        }

        func isFor(_ minute: Int) -> Bool {
            guard let (from, to) = times else { return true }
            // 22:00-06:00 goes past midnight.
            return from <= to ? (from..<to).contains(minute) : minute >= from || minute < to
        }
    }

    private let rules: [Rule]

    /// The largest rate that Redis computes with: Lua/limits/rates.lua.
    private static let rates: ClosedRange<Int64> = 1...99_999_999_999_999

    /// What a text must be, as the end of a sentence.
    package static let rule =
        "must be bytes per second, 1 or more, like 5000000 or 5M, or rates by the time of day like full 22:00-06:00 Europe/Berlin, 2M"

    package init?(_ text: String) {
        var rules: [Rule] = []
        for part in text.split(separator: ",", omittingEmptySubsequences: false) {
            // After a rate for all day no other rate would ever be used.
            guard rules.last.map({ $0.times != nil }) ?? true, let rule = Self.rule(part) else { return nil }
            rules.append(rule)
        }
        self.rules = rules
    }

    private static func rule(_ text: Substring) -> Rule? {
        // A unit may follow a space: "5 MB".
        let words = text.split(separator: " ").map(String.init)
        let timesIndex = words.firstIndex { $0.contains(":") } ?? words.endIndex
        let rate = words[..<timesIndex].joined(separator: " ")
        let count = ByteUnits.count(rate)
        guard rate == "full" || count.map(rates.contains) == true else { return nil }
        var rule = Rule(rate: rate == "full" ? nil : count)
        guard timesIndex < words.endIndex else { return rule }
        let times = words[timesIndex].split(separator: "-", omittingEmptySubsequences: false).map(minutes)
        guard times.count == 2, let from = times[0], let to = times[1], from != to else { return nil }
        rule.times = (from, to)
        let rest = words[(timesIndex + 1)...]
        guard rest.count <= 1, rest.allSatisfy(TimeZoneRules.isName) else { return nil }
        rule.zone = rest.first
        return rule
    }

    private static func minutes(_ text: Substring) -> Int? {
        let parts = text.split(separator: ":", omittingEmptySubsequences: false)
        guard parts.count == 2, parts.allSatisfy({ 1...2 ~= $0.utf8.count && $0.utf8.allSatisfy { 48...57 ~= $0 } }),
            let hour = Int(parts[0]), let minute = Int(parts[1]), minute < 60, hour * 60 + minute <= 24 * 60
        else { return nil }
        return hour * 60 + minute
    }

    /// Bytes per second at a time; nil without a limit. The first rule that fits counts. If this machine does not know
    /// the zone of a rule, the lowest of all rates counts, because too slow does no harm and too fast may.
    ///
    /// - Parameters:
    ///   - time: Unix seconds.
    ///   - offset: Seconds east of UTC, for times without a zone.
    package func rate(at time: Int64, offset: Int = 0) -> Int64? {
        for rule in rules {
            guard let zone = rule.zone else {
                if rule.isFor(Self.minute(time, offset)) { return rule.rate }
                continue
            }
            guard let known = TimeZoneRules.named(zone) else { return rules.compactMap(\.rate).min() }
            if rule.isFor(Self.minute(time, known.offset(at: time))) { return rule.rate }
        }
        return nil
    }

    private static func minute(_ time: Int64, _ offset: Int) -> Int {
        let seconds = (time + Int64(offset)) % 86_400
        return Int(seconds < 0 ? seconds + 86_400 : seconds) / 60
    }

    /// The rate is the same all day.
    package var isConstant: Bool { rules.count == 1 && rules[0].times == nil }

    /// A zone that this machine does not know; nil if it knows all of them.
    package var unknownZone: String? { rules.lazy.compactMap(\.zone).first { TimeZoneRules.named($0) == nil } }

    /// What is wrong with a schedule that has such a zone, for whoever sets it; nil if nothing is.
    package var zoneFault: String? {
        unknownZone.map {
            "the time zone \($0) is not in \(TimeZoneRules.directory) of this machine; check its spelling, or install tzdata"
        }
    }
}
