import ArgumentParser
import HaulContract

/// Sizes and times as people write and read them. They are never part of a protocol.
package enum Units {
    private static let decimal = ["B", "kB", "MB", "GB", "TB", "PB"]

    /// `999 B`, `1.2 kB`, `30.0 MB`: decimal units, as disks, networks and the page have them.
    package static func bytes(_ count: Int64) -> String {
        let unit = unit(of: count)
        return unit == 0 ? "\(count) B" : "\(scaled(count, unit)) \(decimal[unit])"
    }

    /// `2.5/4.8 GB`: both numbers in the unit of the whole. Without a whole the part alone.
    package static func amount(_ part: Int64, of whole: Int64?) -> String {
        guard let whole else { return bytes(part) }
        let unit = unit(of: whole)
        return unit == 0
            ? "\(part)/\(whole) B" : "\(scaled(part, unit))/\(scaled(whole, unit)) \(decimal[unit])"
    }

    /// The index of the largest unit in which a number is 1 or more, after it has been rounded.
    private static func unit(of count: Int64) -> Int {
        var (value, unit) = (Double(count), 0)
        while value >= (unit == 0 ? 1000 : 999.95), unit < decimal.count - 1 {
            value /= 1000
            unit += 1
        }
        return unit
    }

    private static func scaled(_ count: Int64, _ unit: Int) -> String {
        rounded((0..<unit).reduce(Double(count)) { value, _ in value / 1000 })
    }

    package static func speed(_ bytesPerSecond: Int64) -> String { bytes(bytesPerSecond) + "/s" }

    package static func duration(_ seconds: Int64) -> String {
        let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60)
        if hours > 0 { return "\(hours)h\(two(minutes))m" }
        return minutes > 0 ? "\(minutes)m\(two(rest))s" : "\(rest)s"
    }

    /// `12 ms`, `3.4s` or `1m20s`: milliseconds below 0.1 s, tenths below 10 s.
    package static func duration(_ seconds: Double) -> String {
        if seconds < 0.1 { return "\(Int64(max(0, seconds * 1000).rounded())) ms" }
        return seconds < 10 ? "\(rounded(seconds))s" : duration(Int64(min(seconds, 1e15).rounded()))
    }

    private static func two(_ number: Int64) -> String { number < 10 ? "0\(number)" : "\(number)" }

    private static func rounded(_ value: Double) -> String {
        let tenths = Int((value * 10).rounded())
        return "\(tenths / 10).\(tenths % 10)"
    }
}

/// An option that is a number of bytes, or of bytes per second.
package struct ByteCount: ExpressibleByArgument, CustomStringConvertible {
    package let bytes: Int64

    package init(_ bytes: Int64) { self.bytes = bytes }

    package init?(argument: String) {
        guard let bytes = ByteUnits.count(argument) else { return nil }
        self.bytes = bytes
    }

    package var description: String { String(bytes) }
}
