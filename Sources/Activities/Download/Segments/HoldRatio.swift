/// The fraction of about the last second in which our own limits, the digest or the disk held up the transfers of a
/// download. If it is large, more connections would wait, too. A short hold now and then does not count.
struct HoldRatio {
    /// From this fraction on more connections would not help.
    static let largeFraction = 0.1
    /// Seconds that the average covers.
    private static let averagingTime = 1.0
    /// Seconds. Only after this time is it known whether a digest that is computed meanwhile holds the transfers up.
    /// Bytes that other connections fetch ahead of the digest must be read back.
    private static let trialTime = 1.0
    /// Seconds. A shorter sample says little about a lasting hold.
    private static let minSampleTime = 0.01

    private let isExpected: Bool
    private var average = RunningAverage()
    private var sampled = (time: 0.0, held: [Int: Double]())
    private var now = 0.0

    /// - Parameter isExpected: Holds are likely, so they are assumed until `trialTime` has passed.
    init(isExpected: Bool) { self.isExpected = isExpected }

    var isLarge: Bool { (average.value ?? 0) >= Self.largeFraction || isExpected && now < Self.trialTime }

    /// Records how many seconds each transfer was held so far, by its id. The transfer that was held longest counts.
    mutating func sample(_ held: [Int: Double], now: Double) {
        self.now = now
        let elapsed = now - sampled.time
        guard elapsed >= Self.minSampleTime else { return }
        let maxHeld = held.map { id, total in total - (sampled.held[id] ?? 0) }.max() ?? 0
        let recent = min(1, max(0, maxHeld / elapsed))
        average.add(recent, over: elapsed, age: now, averagingTime: Self.averagingTime)
        sampled = (now, held)
    }
}
