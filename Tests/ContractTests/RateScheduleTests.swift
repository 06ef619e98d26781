import HaulContract
import Testing

@Suite("A limit of rate by the time of day")
struct RateScheduleTests {
    /// Unix seconds of a time in UTC.
    private static func time(_ year: Int, _ month: Int, _ day: Int, _ hour: Int, _ minute: Int = 0) -> Int64 {
        Int64(CivilDate(year: year, month: month, day: day).days * 86_400 + hour * 3600 + minute * 60)
    }

    @Test(
        "the first rate whose times fit counts, and `full` means no limit",
        arguments: [
            ("2M", 600, 2 << 20), ("full 22:00-06:00, 2M", 23 * 60, nil), ("full 22:00-06:00, 2M", 5 * 60 + 59, nil),
            ("full 22:00-06:00, 2M", 6 * 60, 2 << 20), ("1k 08:00-18:00", 9 * 60, 1024),
            ("1k 08:00-18:00", 18 * 60, nil), ("1k 8:00-12:00, 2k 8:00-18:00, 3k", 11 * 60, 1024),
            ("1k 8:00-12:00, 2k 8:00-18:00, 3k", 12 * 60, 2048), ("5 MB 00:00-24:00", 0, 5_000_000),
            ("5000000", 0, 5_000_000),
        ] as [(String, Int64, Int64?)])
    func rate(_ text: String, _ minute: Int64, _ rate: Int64?) throws {
        let schedule = try #require(RateSchedule(text))
        #expect(schedule.rate(at: Self.time(2026, 11, 26, 0) + minute * 60) == rate)
        // The same local time, six hours east and a day later in UTC.
        #expect(schedule.rate(at: Self.time(2026, 11, 26, 0) + minute * 60 - 21_600, offset: 21_600) == rate)
    }

    @Test(
        "a text that is not a schedule, or has a rate that would never apply, is refused",
        arguments: [
            "", "fast", "0", "-1", "2M 22:00", "2M 22-06", "2M 25:00-26:00", "2M 23:00-24:30", "2M,", "2M 06:00-06:00",
            "2M, full 22:00-06:00", "2M 22:00-06:00 berlin", "2M 22:00-06:00 Europe/Berlin x", "22:00-06:00",
            "2M 22:00-06:00 ../../etc/passwd", "99999999999999999999",
        ])
    func refused(_ text: String) { #expect(RateSchedule(text) == nil) }

    @Test("times of a zone follow its summer time, also on the days when it begins and ends")
    func summerTime() throws {
        let night = try #require(RateSchedule("full 22:00-06:00 Europe/Berlin, 2M"))
        for (time, isFull) in [
            // Winter is an hour before UTC, summer is two.
            (Self.time(2026, 1, 15, 20, 59), false), (Self.time(2026, 1, 15, 21), true),
            (Self.time(2026, 1, 16, 4, 59), true), (Self.time(2026, 1, 16, 5), false),
            (Self.time(2026, 7, 15, 19, 59), false), (Self.time(2026, 7, 15, 20), true),
            (Self.time(2026, 7, 16, 3, 59), true), (Self.time(2026, 7, 16, 4), false),
            // The night of March 29 has seven hours, and that of October 25 has nine.
            (Self.time(2026, 3, 28, 21), true), (Self.time(2026, 3, 29, 3, 59), true),
            (Self.time(2026, 3, 29, 4), false),
            (Self.time(2026, 10, 24, 20), true), (Self.time(2026, 10, 25, 4, 59), true),
            (Self.time(2026, 10, 25, 5), false),
        ] { #expect(night.rate(at: time) == (isFull ? nil : 2 << 20), "\(time)") }
        let twice = try #require(RateSchedule("1k 02:00-03:00 Europe/Berlin"))
        func minutes(_ day: Int64) -> Int { (0..<1440).count { twice.rate(at: day + Int64($0) * 60) == 1024 } }
        // The clock skips this hour in March and shows it twice in October.
        #expect(minutes(Self.time(2026, 3, 29, 0)) == 0 && minutes(Self.time(2026, 10, 25, 0)) == 120)
        #expect(minutes(Self.time(2026, 5, 5, 0)) == 60)
    }

    @Test("a zone that the machine does not know gives the lowest of the rates")
    func unknownZone() throws {
        let schedule = try #require(RateSchedule("full 22:00-06:00 Europe/Nowhere, 2M 8:00-9:00, 5M"))
        #expect(schedule.unknownZone == "Europe/Nowhere" && schedule.rate(at: 0) == 2 << 20)
        #expect(try #require(RateSchedule("full 22:00-06:00 UTC, 2M")).unknownZone == nil)
    }
}
