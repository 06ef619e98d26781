import Glibc

/// Dates and Retry-After: a date is the same when it is written and parsed again, and no wait is negative or overflows.
enum DateFuzz: FuzzTarget {
    static func run(_ bytes: UnsafeRawBufferPointer) {
        let text = bytes.text
        if let delay = RetryPolicy.retryAfter(text, now: 1_800_000_000) {
            precondition(delay >= .zero && delay <= .seconds(1 << 32))
        }
        guard let seconds = HTTPDate.parse(text) else { return }
        precondition(HTTPDate.parse(write(seconds)) == seconds)
    }

    private static func write(_ seconds: Int64) -> String {
        var (time, parts) = (time_t(seconds), tm())
        gmtime_r(&time, &parts)
        let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
        func padded(_ number: Int32, _ width: Int) -> String {
            let digits = String(number)
            return String(repeating: "0", count: max(0, width - digits.count)) + digits
        }
        let day = "\(padded(parts.tm_mday, 2)) \(months[Int(parts.tm_mon)]) \(padded(parts.tm_year + 1900, 4))"
        return "Sun, \(day) \(padded(parts.tm_hour, 2)):\(padded(parts.tm_min, 2)):\(padded(parts.tm_sec, 2)) GMT"
    }
}
