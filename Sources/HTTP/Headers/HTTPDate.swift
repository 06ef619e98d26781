import Glibc

/// The dates of HTTP (RFC 9110 section 5.6.7), in seconds since 1970.
package enum HTTPDate {
    private static let days = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"]
    private static let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]

    /// Reads the three formats of the RFC, without a check of the weekday and the time zone; nil for anything else.
    package static func parse(_ text: String) -> Int64? {
        let words = text.utf8.split { " ,-".utf8.contains($0) }.map { String(Substring($0)) }
        if words.count >= 5, let day = Int64(words[1]), let month = months.firstIndex(of: words[2]),
            var year = Int64(words[3])
        {
            // "Sun, 06 Nov 1994 08:49:37 GMT", and RFC 850's "Sunday, 06-Nov-94 08:49:37 GMT".
            if words[3].utf8.count == 2 { year += year < 70 ? 2000 : 1900 }
            return seconds(year: year, month: month + 1, day: day, time: words[4])
        }
        // asctime's "Sun Nov  6 08:49:37 1994".
        guard words.count == 5, let month = months.firstIndex(of: words[1]), let day = Int64(words[2]),
            let year = Int64(words[4])
        else { return nil }
        return seconds(year: year, month: month + 1, day: day, time: words[3])
    }

    /// The preferred format: "Sun, 06 Nov 1994 08:49:37 GMT".
    package static func text(_ seconds: Int64) -> String {
        var (timestamp, parts) = (time_t(seconds), tm())
        gmtime_r(&timestamp, &parts)
        func two(_ number: Int32) -> String { number < 10 ? "0\(number)" : "\(number)" }
        let day = "\(days[Int(parts.tm_wday)]), \(two(parts.tm_mday)) \(months[Int(parts.tm_mon)])"
        let time = [parts.tm_hour, parts.tm_min, parts.tm_sec].map(two).joined(separator: ":")
        return "\(day) \(parts.tm_year + 1900) \(time) GMT"
    }

    private static func seconds(year: Int64, month: Int, day: Int64, time: String) -> Int64? {
        let parts = time.utf8.split(separator: UInt8(ascii: ":")).compactMap { Int64(Substring($0)) }
        guard parts.count == 3, (1...31).contains(day), (0...23).contains(parts[0]), (0...59).contains(parts[1]),
            (0...60).contains(parts[2]), (1...9999).contains(year)
        else { return nil }
        // Days since 1970 in the proleptic Gregorian calendar. Years begin in March, so that a leap day is the last day
        // of a year.
        let shifted = month <= 2 ? year - 1 : year
        let era = shifted / 400
        let yearOfEra = shifted - era * 400
        let dayOfYear = (153 * Int64((month + 9) % 12) + 2) / 5 + day - 1
        let days = era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
        return days * 86_400 + parts[0] * 3600 + parts[1] * 60 + parts[2]
    }
}
