import Glibc

/// Ages and dates as short texts.
package enum Age {
    /// An age in milliseconds as `12s`, `5m`, `3h` or `9d`. A negative age is shown as `0s`: the two clocks differ.
    ///
    /// Each unit begins at two and continues the one before it (`119s`, `2m`), so that a greater age never reads as a
    /// smaller one.
    package static func text(_ milliseconds: Int64) -> String {
        let seconds = max(0, milliseconds / 1000)
        switch seconds {
        case ..<120: return "\(seconds)s"
        case ..<7200: return "\(seconds / 60)m"
        case ..<172_800: return "\(seconds / 3600)h"
        default: return "\(seconds / 86_400)d"
        }
    }

    /// Reads `90` (seconds), `90s`, `10m`, `2h`, `7d` or `1w`, and returns milliseconds; nil for any other text.
    package static func milliseconds(_ text: String) -> Int64? {
        let units: [Character: Int64] = ["s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800]
        guard let last = text.last else { return nil }
        let digits = units[last] == nil ? text[...] : text.dropLast()
        guard !digits.isEmpty, digits.allSatisfy({ $0.isASCII && $0.isNumber }), let count = Int64(digits),
            count <= 3_000_000_000
        else { return nil }
        return count * (units[last] ?? 1) * 1000
    }

    /// A Unix time in milliseconds as a date, `2026-11-22 13:05:11 UTC`.
    package static func date(_ milliseconds: Int64) -> String {
        var seconds = time_t(milliseconds / 1000)
        var parts = tm()
        gmtime_r(&seconds, &parts)
        func two(_ number: Int32) -> String { number < 10 ? "0\(number)" : "\(number)" }
        return "\(parts.tm_year + 1900)-\(two(parts.tm_mon + 1))-\(two(parts.tm_mday)) "
            + "\(two(parts.tm_hour)):\(two(parts.tm_min)):\(two(parts.tm_sec)) UTC"
    }
}
