import HaulContract
import Testing

@testable import HaulActivities

/// What follows from failed connections. No connection is made here.
@Suite struct ConnectionFailureTests {
    private static let broken = Failure(.incomplete, "it broke")
    private static let gone = Failure(.http(404), "there is none")
    private static let busy = Failure(.http(503), "later", retryAfter: .seconds(7))
    private static let total: Int64 = 10_000_000

    @Test("refused connections are retried with longer delays, and not after three refusals in a row") func refusals() {
        var failures = ConnectionFailures(written: 0)
        let delays = (0..<3).map { _ in failures.refused(Self.broken) }
        #expect(delays == [2, 4, .infinity])
        failures.recordResponse()
        let next = failures.refused(Self.broken)
        #expect(next == 2)
    }

    @Test("a server's Retry-After is obeyed, and a server without the file gets no second request") func words() {
        var failures = ConnectionFailures(written: 0)
        let busy = failures.refused(Self.busy)
        let gone = failures.refused(Self.gone)
        #expect(busy == 7 && gone == .infinity)
    }

    @Test("a response that delivered enough is replaced at once, and a short one delays new connections")
    func breaks() {
        var failures = ConnectionFailures(written: 0)
        let short = ConnectionFailures.minUsefulBytes - 1
        let delays = [short, short, short + 1, short].map { failures.broke(after: $0, Self.broken) }
        #expect(delays == [2, 4, 0, 2])
        failures.recordCompletePart()
        let next = failures.broke(after: 0, Self.broken)
        #expect(next == 2)
    }

    @Test("the only connection is replaced as long as each one adds enough bytes to the file") func only() {
        var failures = ConnectionFailures(written: 100_000)
        let first = failures.mayReplace(Self.broken, written: 100_000 + (64 << 10), of: Self.total)
        let second = failures.mayReplace(Self.broken, written: 100_000 + (64 << 10) + 1, of: Self.total)
        #expect(first && !second)
        let other = failures.mayReplace(Self.gone, written: Self.total, of: Self.total)
        let busy = failures.mayReplace(Self.busy, written: Self.total, of: Self.total)
        #expect(!other && !busy, "these failures count as attempts")
    }
}

@Suite struct RunningAverageTests {
    @Test("the average is the mean at first, and then forgets old measurements") func average() throws {
        var average = RunningAverage()
        #expect(average.value == nil)
        average.add(10, over: 0.5, age: 0.5, averagingTime: 2)
        average.add(20, over: 0.5, age: 1, averagingTime: 2)
        #expect(average.value == 15)
        for second in 2..<12 { average.add(100, over: 1, age: Double(second), averagingTime: 2) }
        let late = try #require(average.value)
        #expect(late > 99 && late < 100)
    }

    @Test("a measurement longer than the averaging time replaces the average") func long() {
        var average = RunningAverage()
        average.add(10, over: 1, age: 1, averagingTime: 2)
        average.add(4, over: 3, age: 4, averagingTime: 2)
        #expect(average.value == 4)
    }
}
