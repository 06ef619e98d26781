import HaulBus
import HaulContract
import HaulExecutors
import HaulHTTP

/// A worker's rate lease (Lua/limits/rates.lua): the rate that it obeys, and the rate that it could use.
///
/// It lapses with the worker's lease, by this worker's clock, from before it was requested. So a worker that was
/// frozen, or cannot reach Redis, uses nothing that has been lent to another since.
struct SharedRate {
    /// The time between two requests. Demand is that of the last second: unused rate reaches other workers within two.
    static let interval = Duration.milliseconds(250)
    private static let remembered = 4
    /// A worker requests more than it used, so that it can use more.
    private static let growth = 1.25
    private static let least: Int64 = 128 << 10
    /// For how long a host's rate lease is kept without any demand.
    private static let maxTime = Duration.seconds(2)

    private let name: String
    private let bucket: TokenBucket
    /// What the bucket may use, in bytes per second.
    private var keeps: Int64 = 0
    /// The last measurements: bytes per second, and whether the rate lease was too small.
    private var measurements: [(speed: Int64, isShort: Bool)] = []
    private var last: (at: ContinuousClock.Instant, taken: Int64)?
    /// When there was last any demand.
    private var used = ContinuousClock.now

    /// - Parameter name: `RateLeaseRequest.ofQueue`, or a host for which a transfer waits.
    init(_ name: String, _ bucket: TokenBucket) { (self.name, self.bucket) = (name, bucket) }

    /// The request for a rate lease.
    mutating func ask() -> RateLeaseRequest {
        let now = ContinuousClock.now
        measure(now)
        let isShort = measurements.isEmpty || measurements.contains { $0.isShort }
        let speed = measurements.map { $0.speed }.max() ?? 0
        if isShort || speed > 0 { used = now }
        if name != RateLeaseRequest.ofQueue, now - used > Self.maxTime {
            // Stop the use of the rate lease before that is reported.
            bucket.close()
            keeps = 0
            return RateLeaseRequest(name, keeps: 0, wants: .none)
        }
        return RateLeaseRequest(
            name, keeps: keeps, wants: isShort ? .all : .some(Int64(Double(speed) * Self.growth) + Self.least))
    }

    private mutating func measure(_ now: ContinuousClock.Instant) {
        let use = bucket.use()
        defer { last = (now, use.taken) }
        guard let last, now > last.at else { return }
        let seconds = (now - last.at).secondsValue
        // Two requests in quick succession say nothing about a speed.
        guard seconds > 0.05 else { return }
        measurements.append((Int64(Double(use.taken - last.taken) / seconds), use.wasShort))
        measurements = measurements.suffix(Self.remembered)
    }

    /// Applies the reply to a request sent at `sent`. True if the lease has shrunk, which is to be reported at once.
    mutating func take(_ rateLease: RateLease?, sent: ContinuousClock.Instant, lease: Duration) -> Bool {
        guard let rateLease else { return false }
        let left = lease - (ContinuousClock.now - sent)
        keeps = rateLease.bytesPerSecond
        bucket.grantLease(
            bytesPerSecond: keeps, until: monotonicNanoseconds() + UInt64(max(left, .zero).secondsValue * 1e9))
        return rateLease.isSmaller
    }
}
