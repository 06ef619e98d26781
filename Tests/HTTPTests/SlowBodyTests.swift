import Testing

@testable import HaulHTTP

@Suite("The detection of slow bodies")
struct SlowBodyTests {
    /// A body whose bytes are read at once. While it is slow, they are read when `LowWaterMark.highest` bytes have
    /// collected or a second has passed.
    private struct Body {
        private static let patience: UInt64 = 1_000_000_000

        private var detector = SlowBodyDetector()
        private var (now, takenAt): (UInt64, UInt64) = (5, 5)
        private var (come, accepted): (Int64, Int64) = (0, 0)

        /// Whether the body counts as slow, every 250 ms, while it arrives at this number of bytes per second.
        mutating func judgements(at rate: Int64, seconds: Int) -> [Bool] {
            (0..<seconds * 4).map { _ in
                for _ in 0..<25 {
                    now += 10_000_000
                    come += rate / 100
                    guard !detector.isSlow || come - accepted >= LowWaterMark.highest || now >= takenAt + Self.patience
                    else {
                        continue
                    }
                    (accepted, takenAt) = (come, now)
                }
                detector.update(accepted, at: now, patience: Self.patience)
                return detector.isSlow
            }
        }
    }

    @Test(
        "a slow body is recognized after two seconds, and stays slow although its bytes come in bursts",
        arguments: [1000, 20_000, 100_000, 200_000])
    func slow(_ rate: Int64) {
        var body = Body()
        #expect(!body.judgements(at: rate, seconds: 60).dropFirst(8).contains(false))
    }

    @Test("a fast body is never slow", arguments: [400_000, 1_000_000, 1_000_000_000])
    func fast(_ rate: Int64) {
        var body = Body()
        #expect(!body.judgements(at: rate, seconds: 60).contains(true))
    }

    @Test("a body that begins slowly and doubles with each round trip is never slow") func beginning() {
        var detector = SlowBodyDetector()
        var accepted: Int64 = 0
        for index in 0..<20 {
            detector.update(accepted, at: UInt64(1 + index * 250) * 1_000_000, patience: 1_000_000_000)
            #expect(!detector.isSlow)
            accepted += 15_000 << min(Int64(index), 8)
        }
    }

    @Test("a change of speed is detected within half a second, or after twice the patience")
    func changing() {
        var body = Body()
        #expect(!body.judgements(at: 1_000_000, seconds: 5).contains(true))
        #expect(!body.judgements(at: 50_000, seconds: 5).dropFirst(2).contains(false))
        #expect(!body.judgements(at: 1_000_000, seconds: 5).dropFirst(12).contains(true))
    }
}
