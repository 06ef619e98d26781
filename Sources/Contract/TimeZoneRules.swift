import Glibc
import Synchronization

/// The offsets of a time zone, as the system's zoneinfo has them (RFC 8536).
package struct TimeZoneRules: Sendable {
    package static let utc = TimeZoneRules(transitions: [], first: 0, rule: nil)

    /// When the offset changes (unix seconds), and the seconds east of UTC from then on.
    private let transitions: [(time: Int64, offset: Int)]
    /// The offset before the first transition.
    private let first: Int
    /// What holds after the last transition; nil if the last offset stays.
    private let rule: YearlyRule?

    /// Seconds east of UTC at a time (unix seconds).
    package func offset(at time: Int64) -> Int {
        if let last = transitions.last, time < last.time {
            // The first transition that is later than `time`.
            var (low, high) = (0, transitions.count)
            while low < high {
                let middle = (low + high) / 2
                if transitions[middle].time <= time { low = middle + 1 } else { high = middle }
            }
            return low == 0 ? first : transitions[low - 1].offset
        }
        return rule?.offset(at: time) ?? transitions.last?.offset ?? first
    }

    /// Where this system has its zones.
    package static var directory: String { getenv("TZDIR").map { String(cString: $0) } ?? "/usr/share/zoneinfo" }

    /// Zones that were read, and when. They are read again after an hour, because a system gets new rules.
    private static let known = Mutex<[String: (rules: TimeZoneRules, read: Int64)]>([:])

    /// The rules of an IANA zone; nil if this system does not have it.
    package static func named(_ name: String) -> TimeZoneRules? {
        if name == "UTC" { return utc }
        let now = UnixTime.seconds
        if let kept = known.withLock({ $0[name] }), abs(now - kept.read) < 3600 { return kept.rules }
        guard isName(name), let rules = TimeZoneRules(file: contents(of: name)) else { return nil }
        known.withLock { $0[name] = (rules, now) }
        return rules
    }

    /// Whether a text may be the name of a zone. No such name leads out of the directory of zones.
    package static func isName(_ name: String) -> Bool {
        name.utf8.count <= 64
            && name.split(separator: "/", omittingEmptySubsequences: false).allSatisfy { part in
                part.utf8.first.map { UInt8(ascii: "A") <= $0 && $0 <= UInt8(ascii: "Z") } == true
                    && part.utf8.allSatisfy {
                        switch $0 {
                        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), UInt8(ascii: "-"),
                            UInt8(ascii: "+"):
                            true
                        default: false
                        }
                    }
            }
    }

    private static func contents(of name: String) -> [UInt8] {
        let descriptor = open("\(directory)/\(name)", O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return [] }
        defer { close(descriptor) }
        // The largest zone has some 4 KB.
        return [UInt8](unsafeUninitializedCapacity: 65_536) { buffer, count in
            var got = 0
            repeat {
                got = read(descriptor, buffer.baseAddress! + count, buffer.count - count)
                if got > 0 { count += got }
            } while got > 0
        }
    }

    private init(transitions: [(Int64, Int)], first: Int, rule: YearlyRule?) {
        (self.transitions, self.first, self.rule) = (transitions.map { (time: $0.0, offset: $0.1) }, first, rule)
    }

    /// Reads a TZif file of version 2 or later; nil for anything else.
    package init?(file bytes: [UInt8]) {
        var reader = Reader(bytes: bytes)
        // The first block has times of 32 bits, and the second one repeats it with 64 bits.
        guard let old = reader.header(), old.version >= UInt8(ascii: "2"), reader.skip(old.size(timeBytes: 4)),
            let header = reader.header(), reader.remaining >= header.size(timeBytes: 8), header.types > 0
        else { return nil }
        let times = (0..<header.times).map { _ in Int64(bitPattern: reader.number(8)) }
        let indexes = (0..<header.times).map { _ in Int(reader.number(1)) }
        let offsets = (0..<header.types).map { _ in
            let offset = Int(Int32(bitPattern: UInt32(truncatingIfNeeded: reader.number(4))))
            _ = reader.number(2)
            return offset
        }
        guard indexes.allSatisfy({ $0 < header.types }), offsets.allSatisfy({ abs($0) < 93_600 }),
            zip(times, times.dropFirst()).allSatisfy({ $0 < $1 }),
            reader.skip(header.characters + header.leaps * 12 + header.standards + header.universals)
        else { return nil }
        let footer = String(decoding: reader.rest.dropFirst().prefix { $0 != UInt8(ascii: "\n") }, as: UTF8.self)
        self.init(
            transitions: zip(times, indexes).map { ($0, offsets[$1]) }, first: offsets[0], rule: YearlyRule(footer))
    }

    private struct Header {
        var version: UInt8
        var universals, standards, leaps, times, types, characters: Int

        func size(timeBytes: Int) -> Int {
            times * (timeBytes + 1) + types * 6 + characters + leaps * (timeBytes + 4) + standards + universals
        }
    }

    private struct Reader {
        let bytes: [UInt8]
        var position = 0

        var remaining: Int { bytes.count - position }
        var rest: ArraySlice<UInt8> { bytes[position...] }

        mutating func skip(_ count: Int) -> Bool {
            guard count <= remaining else { return false }
            position += count
            return true
        }

        mutating func number(_ count: Int) -> UInt64 {
            defer { position += count }
            return bytes[position..<position + count].reduce(0) { $0 << 8 | UInt64($1) }
        }

        mutating func header() -> Header? {
            guard remaining >= 44, bytes[position..<position + 4].elementsEqual("TZif".utf8) else { return nil }
            let version = bytes[position + 4]
            position += 20
            let counts = (0..<6).map { _ in Int(number(4)) }
            // No more than the file can have, so that no sum overflows.
            guard counts.allSatisfy({ $0 <= bytes.count }) else { return nil }
            return Header(
                version: version, universals: counts[0], standards: counts[1], leaps: counts[2], times: counts[3],
                types: counts[4], characters: counts[5])
        }
    }
}

/// The rule at the end of a TZif file, such as `CET-1CEST,M3.5.0,M10.5.0/3`.
private struct YearlyRule: Sendable {
    private enum Day {
        case month(Int, week: Int, weekday: Int)
        /// 1 to 365: February 29 is never counted.
        case withoutLeapDay(Int)
        /// 0 to 365.
        case ofYear(Int)

        /// Days since 1970.
        func days(in year: Int) -> Int {
            let first = CivilDate(year: year, month: 1, day: 1).days
            switch self {
            case .ofYear(let day): return first + day
            case .withoutLeapDay(let day):
                let isLeap = CivilDate(year: year, month: 3, day: 1).days - first == 60
                return first + day - (isLeap && day >= 60 ? 0 : 1)
            case .month(let month, let week, let weekday):
                let begin = CivilDate(year: year, month: month, day: 1).days
                let next =
                    month == 12
                    ? CivilDate(year: year + 1, month: 1, day: 1).days
                    : CivilDate(year: year, month: month + 1, day: 1).days
                let shift = (weekday - CivilDate.weekday(ofDay: begin) + 7) % 7
                let day = begin + shift + (week - 1) * 7
                return day < next ? day : day - 7
            }
        }
    }

    private let standard: Int
    /// nil if the zone has no summer time.
    private var summer: (offset: Int, begin: (day: Day, time: Int), end: (day: Day, time: Int))?

    init?(_ text: String) {
        var rest = Array(text.utf8)[...]
        guard Self.skipName(&rest), let standard = Self.time(&rest) else { return nil }
        // POSIX counts to the west.
        self.standard = -standard
        guard !rest.isEmpty else { return }
        guard Self.skipName(&rest) else { return nil }
        var offset = self.standard + 3600
        if let first = rest.first, first != UInt8(ascii: ",") {
            guard let west = Self.time(&rest) else { return nil }
            offset = -west
        }
        guard let begin = Self.change(&rest), let end = Self.change(&rest), rest.isEmpty else { return nil }
        summer = (offset, begin, end)
    }

    func offset(at time: Int64) -> Int {
        guard let summer else { return standard }
        let year = CivilDate(days: (Int(time) + standard).floored(by: 86_400)).year
        let begin = summer.begin.day.days(in: year) * 86_400 + summer.begin.time - standard
        let end = summer.end.day.days(in: year) * 86_400 + summer.end.time - summer.offset
        let isSummer =
            begin < end ? begin <= Int(time) && Int(time) < end : Int(time) < end || begin <= Int(time)
        return isSummer ? summer.offset : standard
    }

    private static func skipName(_ rest: inout ArraySlice<UInt8>) -> Bool {
        if rest.first == UInt8(ascii: "<") {
            guard let end = rest.firstIndex(of: UInt8(ascii: ">")) else { return false }
            rest = rest[(end + 1)...]
            return true
        }
        let name = rest.prefix { ($0 | 0x20) >= UInt8(ascii: "a") && ($0 | 0x20) <= UInt8(ascii: "z") }
        rest = rest.dropFirst(name.count)
        return !name.isEmpty
    }

    private static func number(_ rest: inout ArraySlice<UInt8>) -> Int? {
        let digits = rest.prefix { UInt8(ascii: "0") <= $0 && $0 <= UInt8(ascii: "9") }
        rest = rest.dropFirst(digits.count)
        return digits.count <= 4 ? Int(String(decoding: digits, as: UTF8.self)) : nil
    }

    /// `2`, `-1:30` or `+02:00:00`, in seconds.
    private static func time(_ rest: inout ArraySlice<UInt8>) -> Int? {
        let sign = rest.first == UInt8(ascii: "-") ? -1 : 1
        if rest.first == UInt8(ascii: "-") || rest.first == UInt8(ascii: "+") { rest = rest.dropFirst() }
        guard var seconds = number(&rest).map({ $0 * 3600 }) else { return nil }
        for unit in [60, 1] where rest.first == UInt8(ascii: ":") {
            rest = rest.dropFirst()
            guard let more = number(&rest) else { return nil }
            seconds += more * unit
        }
        return sign * seconds
    }

    /// `,M3.5.0/2`, `,J60` or `,59`, and the local time of the change in seconds.
    private static func change(_ rest: inout ArraySlice<UInt8>) -> (day: Day, time: Int)? {
        guard rest.popFirst() == UInt8(ascii: ",") else { return nil }
        let day: Day
        switch rest.first {
        case UInt8(ascii: "M"):
            rest = rest.dropFirst()
            guard let month = number(&rest), 1...12 ~= month, rest.popFirst() == UInt8(ascii: "."),
                let week = number(&rest), 1...5 ~= week, rest.popFirst() == UInt8(ascii: "."),
                let weekday = number(&rest), 0...6 ~= weekday
            else { return nil }
            day = .month(month, week: week, weekday: weekday)
        case UInt8(ascii: "J"):
            rest = rest.dropFirst()
            guard let number = number(&rest), 1...365 ~= number else { return nil }
            day = .withoutLeapDay(number)
        default:
            guard let number = number(&rest), 0...365 ~= number else { return nil }
            day = .ofYear(number)
        }
        guard rest.first == UInt8(ascii: "/") else { return (day, 7200) }
        rest = rest.dropFirst()
        return time(&rest).map { (day, $0) }
    }
}
