import Testing

@testable import HaulDirect

/// `haul get` as a part of other programs.
@Suite struct GetServiceTests {
    @Test(
        "a limit of rate may depend on the time of day",
        arguments: [
            ("2M", 600, 2 << 20), ("full 22:00-06:00, 2M", 23 * 60, nil), ("full 22:00-06:00, 2M", 5 * 60 + 59, nil),
            ("full 22:00-06:00, 2M", 6 * 60, 2 << 20), ("1k 08:00-18:00", 9 * 60, 1024),
            ("1k 08:00-18:00", 18 * 60, nil),
            ("5 MB 00:00-24:00", 0, 5_000_000),
        ] as [(String, Int, Int64?)])
    func schedule(_ text: String, _ minute: Int, _ rate: Int64?) throws {
        #expect(try #require(RateSchedule(argument: text)).rate(at: minute) == rate)
        for wrong in ["", "fast", "2M 22:00", "2M 22-06", "2M 25:00-26:00", "2M,"] {
            #expect(RateSchedule(argument: wrong) == nil, "\(wrong)")
        }
    }
}
