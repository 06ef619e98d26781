/// A cron expression of five fields: minute, hour, day of the month, month, day of the week.
package struct CronExpression: Sendable {
    /// The fields as they were written.
    package let text: String
    private let minutes, hours, days, months, weekdays: UInt64
    /// The field begins with `*`. If both days are restricted, a day that fits either of them counts.
    private let isAnyDay, isAnyWeekday: Bool
    /// The hour field begins with `*`, so the expression is about elapsed time and not about a time of day.
    private let isHourly: Bool

    package struct Invalid: Error, Sendable, CustomStringConvertible {
        package let description: String
    }

    package init(_ text: String) throws(Invalid) {
        let fields = text.split(whereSeparator: { $0 == " " || $0 == "\t" }).map(String.init)
        guard fields.count == 5 else {
            throw Invalid(
                description:
                    "must have five fields (minute, hour, day of month, month, day of week), not \(fields.count)")
        }
        self.text = fields.joined(separator: " ")
        minutes = try Self.set(of: fields[0], "minute", 0...59)
        hours = try Self.set(of: fields[1], "hour", 0...23)
        days = try Self.set(of: fields[2], "day of month", 1...31)
        months = try Self.set(of: fields[3], "month", 1...12, Self.monthNames, from: 1)
        let weekdays = try Self.set(of: fields[4], "day of week", 0...7, Self.weekdayNames)
        // Both 0 and 7 are Sunday.
        self.weekdays = (weekdays | weekdays >> 7) & 0x7F
        isAnyDay = fields[2].hasPrefix("*")
        isAnyWeekday = fields[4].hasPrefix("*")
        isHourly = fields[1].hasPrefix("*")
        if next(after: 0, in: .utc) == nil {
            throw Invalid(description: "must name a date that exists, which \"\(self.text)\" does not")
        }
    }

    private static let monthNames = [
        "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
    ]
    private static let weekdayNames = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]

    /// The values of a field like `*/15`, `1-5` or `mon,wed-fri`, as bits.
    private static func set(
        of field: String, _ name: String, _ range: ClosedRange<Int>, _ names: [String] = [], from first: Int = 0
    ) throws(Invalid) -> UInt64 {
        func number(_ text: Substring) -> Int? {
            if let index = names.firstIndex(of: text.lowercased()) { return index + first }
            guard !text.isEmpty, text.utf8.count <= 2, text.utf8.allSatisfy({ 48...57 ~= $0 }), let number = Int(text)
            else { return nil }
            return range.contains(number) ? number : nil
        }
        var bits: UInt64 = 0
        for item in field.split(separator: ",", omittingEmptySubsequences: false) {
            let parts = item.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
            let step = parts.count == 2 ? Int(parts[1]) : 1
            let ends = parts[0].split(separator: "-", maxSplits: 1, omittingEmptySubsequences: false)
            var bounds: (Int, Int)?
            if parts[0] == "*" {
                bounds = (range.lowerBound, name == "day of week" ? 6 : range.upperBound)
            } else if let low = number(ends[0]) {
                // `5/10` is every tenth value from 5 on.
                if ends.count == 2 {
                    bounds = number(ends[1]).map { (low, $0) }
                } else {
                    bounds = (low, parts.count == 2 ? range.upperBound : low)
                }
            }
            guard let (low, high) = bounds, low <= high, let step, 1...59 ~= step else {
                throw Invalid(
                    description:
                        "the \(name) must be *, a number from \(range.lowerBound) to \(range.upperBound), a range, a step "
                        + "like */5, or a list of them, not \"\(field)\"")
            }
            for value in stride(from: low, through: high, by: step) { bits |= 1 << UInt64(value) }
        }
        return bits
    }

    private static func has(_ bits: UInt64, _ value: Int) -> Bool { bits >> UInt64(value) & 1 == 1 }

    private func fits(day: Int) -> Bool {
        let date = CivilDate(days: day)
        guard Self.has(months, date.month) else { return false }
        let (fitsDay, fitsWeekday) = (
            Self.has(days, date.day), Self.has(weekdays, CivilDate.weekday(ofDay: day))
        )
        return isAnyDay || isAnyWeekday ? fitsDay && fitsWeekday : fitsDay || fitsWeekday
    }

    /// The first time that is later than `time`, in unix seconds; nil if there is none for the next 30 years, as with
    /// February 30.
    ///
    /// If the clock skips a time of day, the first moment after the gap takes its place. If a time of day comes twice,
    /// the first one counts. An expression for each hour has neither rule: it skips what does not exist, and counts both.
    package func next(after time: Int64, in zone: TimeZoneRules) -> Int64? {
        let today = (Int(time) + zone.offset(at: time)).floored(by: 86_400)
        // The clock may go back over midnight, so the day before may still have a time.
        for day in today - 1...today + 11_000 where fits(day: day) {
            if let found = first(after: Int(time), on: day, in: zone) { return Int64(found) }
        }
        return nil
    }

    private func first(after time: Int, on day: Int, in zone: TimeZoneRules) -> Int? {
        let midnight = day * 86_400
        // The day is between these times in every zone.
        let (begin, end) = (midnight - 100_000, midnight + 190_000)
        guard end > time else { return nil }
        let (before, after) = (zone.offset(at: Int64(begin)), zone.offset(at: Int64(end)))
        var earliest: Int?
        for hour in 0..<24 where Self.has(hours, hour) {
            for minute in 0..<60 where Self.has(minutes, minute) {
                let local = midnight + hour * 3600 + minute * 60
                if before == after {
                    if local - before > time { return local - before }
                    continue
                }
                for found in instants(local, before, after, begin, end, zone) where found > time {
                    earliest = min(earliest ?? found, found)
                }
            }
        }
        return earliest
    }

    /// When a local time is on a day at which the offset changes.
    private func instants(
        _ local: Int, _ before: Int, _ after: Int, _ begin: Int, _ end: Int, _ zone: TimeZoneRules
    ) -> [Int] {
        let found = [before, after].filter { zone.offset(at: Int64(local - $0)) == $0 }.map { local - $0 }.sorted()
        if isHourly { return found }
        if let first = found.first { return [first] }
        // The clock skips this time. The change is the first second with the later offset.
        var (low, high) = (begin, end)
        while low < high {
            let middle = (low + high).floored(by: 2)
            if zone.offset(at: Int64(middle)) == before { low = middle + 1 } else { high = middle }
        }
        return [low]
    }
}
