import Glibc

/// Times in the format of RFC 3339, in UTC.
package enum Timestamp {
    /// `2026-11-22T13:45:01.123Z`
    package static func text(_ unixMilliseconds: Int64) -> String {
        var seconds = time_t(unixMilliseconds / 1000)
        var parts = tm()
        gmtime_r(&seconds, &parts)
        let day = "\(1900 + Int(parts.tm_year))-\(two(1 + parts.tm_mon))-\(two(parts.tm_mday))"
        let milliseconds = unixMilliseconds % 1000
        return "\(day)T\(two(parts.tm_hour)):\(two(parts.tm_min)):\(two(parts.tm_sec))"
            + ".\(milliseconds < 100 ? "0" : "")\(milliseconds < 10 ? "0" : "")\(milliseconds)Z"
    }

    private static func two(_ number: Int32) -> String { number < 10 ? "0\(number)" : "\(number)" }
}
