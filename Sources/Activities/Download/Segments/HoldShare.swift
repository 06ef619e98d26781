/// How much of about the last second not the servers but our own limits, the digest or the disk held the transfers of a
/// download: more connections would only wait with them. A moment now and then is none of that; every disk has them.
///
/// Times are in seconds since the download's begin.
struct HoldShare {
    /// From this share on more connections would not help.
    static let many = 0.1
    /// Seconds.
    private static let memory = 1.0
    /// A digest that runs along shows only after so long that it is what holds, and what others fetched ahead of it must be
    /// read back.
    private static let trial = 1.0
    /// What is shorter says little of a hold that lasts.
    private static let shortestSample = 0.01

    private let isExpected: Bool
    private var share = RunningAverage()
    private var sampled = (time: 0.0, held: [Int: Double]())
    private var now = 0.0

    /// - Parameter isExpected: Holds are likely, so that it takes a while to believe that there are none.
    init(isExpected: Bool) { self.isExpected = isExpected }

    var isLarge: Bool { (share.value ?? 0) >= Self.many || isExpected && now < Self.trial }

    /// Notes how long each transfer was held so far; the one that was held most counts.
    mutating func sample(_ held: [Int: Double], now: Double) {
        self.now = now
        let elapsed = now - sampled.time
        guard elapsed >= Self.shortestSample else { return }
        let most = held.map { id, total in total - (sampled.held[id] ?? 0) }.max() ?? 0
        let recent = min(1, max(0, most / elapsed))
        share.add(recent, over: elapsed, age: now, memory: Self.memory)
        sampled = (now, held)
    }
}
