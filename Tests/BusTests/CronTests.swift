import Foundation
import HaulContract
import Testing

@testable import HaulBus

@Suite("Due times of cron expressions") struct CronTests {
    /// The next times after a time, as texts. All are ISO 8601 in UTC.
    private func next(_ cron: String, _ zone: String, after text: String, count: Int = 1) throws -> [String] {
        let rules = try #require(TimeZoneRules.named(zone))
        let expression = try CronExpression(cron)
        var time = Int64(try Date(text, strategy: .iso8601).timeIntervalSince1970)
        return try (0..<count).map { _ in
            time = try #require(expression.next(after: time, in: rules))
            return CivilDate.text(ofMilliseconds: time * 1000)
        }
    }

    @Test("a time of day that the clock skips is due at the first moment after the gap") func skipped() throws {
        #expect(
            try next("30 2 * * *", "Europe/Berlin", after: "2026-03-28T00:00:00Z", count: 3)
                == ["2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"])
        // The whole hour after the gap is one due time, not two.
        #expect(
            try next("30 2,3 * * *", "Europe/Berlin", after: "2026-03-29T00:00:00Z", count: 3)
                == ["2026-03-29T01:00:00Z", "2026-03-29T01:30:00Z", "2026-03-30T00:30:00Z"])
    }

    @Test("a time of day that comes twice is due the first time") func doubled() throws {
        #expect(
            try next("30 2 * * *", "Europe/Berlin", after: "2026-10-24T12:00:00Z", count: 2)
                == ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"])
        // Also if the search begins between the two.
        #expect(
            try next("30 1 * * *", "America/New_York", after: "2026-11-01T05:45:00Z") == ["2026-11-02T06:30:00Z"])
    }

    @Test("an expression for each hour counts the doubled hour twice and the skipped one never") func hourly() throws {
        #expect(
            try next("30 * * * *", "Europe/Berlin", after: "2026-10-24T23:45:00Z", count: 4)
                == [
                    "2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-25T02:30:00Z", "2026-10-25T03:30:00Z",
                ])
        #expect(
            try next("30 * * * *", "Europe/Berlin", after: "2026-03-29T00:00:00Z", count: 3)
                == ["2026-03-29T00:30:00Z", "2026-03-29T01:30:00Z", "2026-03-29T02:30:00Z"])
    }

    @Test("zones change by other amounts and at other times of day than in Europe") func zones() throws {
        // Half an hour.
        #expect(
            try next("15 2 * * *", "Australia/Lord_Howe", after: "2026-10-03T00:00:00Z", count: 2)
                == ["2026-10-03T15:30:00Z", "2026-10-04T15:15:00Z"])
        // At midnight.
        #expect(
            try next("10 0 * * *", "America/Santiago", after: "2026-09-05T06:00:00Z", count: 2)
                == ["2026-09-06T04:00:00Z", "2026-09-07T03:10:00Z"])
        // A whole day was skipped.
        #expect(
            try next("0 12 * * *", "Pacific/Apia", after: "2011-12-29T23:00:00Z", count: 2)
                == ["2011-12-30T10:00:00Z", "2011-12-30T22:00:00Z"])
        #expect(
            try next("0 12 * * *", "Asia/Kolkata", after: "2026-01-01T00:00:00Z") == ["2026-01-01T06:30:00Z"])
        // Beyond the table of the file, its rule decides.
        #expect(
            try next("0 12 1 1,7 *", "America/New_York", after: "2090-02-01T00:00:00Z", count: 2)
                == ["2090-07-01T16:00:00Z", "2091-01-01T17:00:00Z"])
    }

    @Test(
        "the offsets of a zone are those of the C library, in years that it has tables and rules for",
        arguments: [
            "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca", "America/Santiago",
        ])
    func offsets(_ name: String) throws {
        let (rules, zone) = (try #require(TimeZoneRules.named(name)), try #require(TimeZone(identifier: name)))
        for time in stride(from: Int64(-500_000_000), to: 2_100_000_000, by: 86_399 * 5) {
            let date = Date(timeIntervalSince1970: Double(time))
            #expect(rules.offset(at: time) == zone.secondsFromGMT(for: date), "\(name) at \(date)")
        }
    }

    @Test("fields have lists, ranges, steps and names") func fields() throws {
        #expect(
            try next("*/20 9-10 * * mon,WED-fri", "UTC", after: "2026-11-24T10:30:00Z", count: 2)
                == ["2026-11-25T09:00:00Z", "2026-11-25T09:20:00Z"])
        // A day that fits the day of the month or the day of the week.
        #expect(
            try next("0 0 13 * 5", "UTC", after: "2026-11-05T00:00:00Z", count: 3)
                == ["2026-11-06T00:00:00Z", "2026-11-13T00:00:00Z", "2026-11-20T00:00:00Z"])
        #expect(try next("0 0 * * 7", "UTC", after: "2026-11-26T00:00:00Z") == ["2026-11-29T00:00:00Z"])
        #expect(try next("0 0 29 feb *", "UTC", after: "2026-11-26T00:00:00Z") == ["2028-02-29T00:00:00Z"])
        #expect(
            try next("50/5 0 1 * *", "UTC", after: "2026-11-26T00:00:00Z", count: 2)
                == ["2026-12-01T00:50:00Z", "2026-12-01T00:55:00Z"])
    }

    @Test(
        "an invalid expression is refused with the field that is wrong",
        arguments: [
            ("* * * *", "five fields"), ("60 * * * *", "the minute must be"), ("* 24 * * *", "the hour must be"),
            ("* * 0 * *", "the day of month must be"), ("* * * 13 *", "the month must be"),
            ("* * * * 8", "the day of week must be"), ("5-1 * * * *", "the minute must be"),
            ("*/0 * * * *", "the minute must be"), ("1,,2 * * * *", "the minute must be"),
            ("+1 * * * *", "the minute must be"),
            ("0 0 30 feb *", "a date that exists"),
        ])
    func refused(_ cron: String, _ reason: String) {
        #expect { try CronExpression(cron) } throws: { "\($0)".contains(reason) }
    }

    @Test("a file that does not describe a time zone is refused, however it is truncated") func files() throws {
        let bytes = [UInt8](try Data(contentsOf: URL(filePath: "/usr/share/zoneinfo/Europe/Berlin")))
        #expect(TimeZoneRules(file: bytes) != nil)
        for count in 0..<bytes.count - 40 { #expect(TimeZoneRules(file: Array(bytes.prefix(count))) == nil) }
        for name in ["../Europe/Berlin", "Europe//Berlin", "/etc/passwd", "", "Europe/", "berlin", "Nowhere/Nothing"] {
            #expect(TimeZoneRules.named(name) == nil, "\(name)")
        }
    }

    @Test("dates and days correspond") func dates() {
        for days in stride(from: -800_000, to: 800_000, by: 997) { #expect(CivilDate(days: days).days == days) }
        #expect(CivilDate(days: 20_783) == CivilDate(year: 2026, month: 11, day: 26))
        #expect(CivilDate.weekday(ofDay: 20_783) == 4)
    }
}
