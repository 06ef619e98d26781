import HaulBus
import HaulContract
import HaulExecutors
import HaulHTTP

/// A worker's rate lease (Lua/limits/rates.lua): the rate that it obeys, and the rate that it could use.
///
/// It expires together with the worker's lease, counted from before it was requested. So a worker that was frozen or
/// cannot reach Redis uses no rate that has been leased to another worker since.
struct WorkerRateLease {
    /// The time between two requests. The demand is that of the last second, so other workers get an unused rate within
    /// two seconds.
    static let interval = Duration.milliseconds(250)
    private static let maxMeasurements = 4
    /// A worker requests more than it used, so that it can use more.
    private static let growth = 1.25
    private static let minWanted: Int64 = 128 << 10
    /// For how long a host's rate lease is kept without any demand.
    private static let maxTime = Duration.seconds(2)

    private let name: String
    private let bucket: TokenBucket
    /// The leased rate in bytes per second.
    private var inUse: Int64 = 0
    /// The last measurements: bytes per second, and whether the rate lease was too small.
    private var measurements: [(speed: Int64, isShort: Bool)] = []
    private var last: (at: ContinuousClock.Instant, taken: Int64)?
    /// When there was demand last.
    private var lastDemand = ContinuousClock.now

    /// - Parameter name: `RateLeaseRequest.queueLimit`, or a host for which a transfer waits.
    init(_ name: String, _ bucket: TokenBucket) { (self.name, self.bucket) = (name, bucket) }

    /// The request for a rate lease.
    mutating func makeRequest() -> RateLeaseRequest {
        let now = ContinuousClock.now
        measure(now)
        let isShort = measurements.isEmpty || measurements.contains { $0.isShort }
        let speed = measurements.map { $0.speed }.max() ?? 0
        if isShort || speed > 0 { lastDemand = now }
        if name != RateLeaseRequest.queueLimit, now - lastDemand > Self.maxTime {
            // Stop the use of the rate lease before that is reported.
            bucket.close()
            inUse = 0
            return RateLeaseRequest(name, inUse: 0, demand: .nothing)
        }
        return RateLeaseRequest(
            name, inUse: inUse,
            demand: isShort ? .unlimited : .bytesPerSecond(Int64(Double(speed) * Self.growth) + Self.minWanted))
    }

    private mutating func measure(_ now: ContinuousClock.Instant) {
        let use = bucket.use()
        defer { last = (now, use.taken) }
        guard let last, now > last.at else { return }
        let seconds = (now - last.at).secondsValue
        // The time between two requests may be too short to measure a speed.
        guard seconds > 0.05 else { return }
        measurements.append((Int64(Double(use.taken - last.taken) / seconds), use.wasShort))
        measurements = measurements.suffix(Self.maxMeasurements)
    }

    /// Applies the reply to a request sent at `sent`. True if the lease has shrunk, which is to be reported at once.
    mutating func apply(_ rateLease: RateLease?, sent: ContinuousClock.Instant, lease: Duration) -> Bool {
        guard let rateLease else { return false }
        let left = lease - (ContinuousClock.now - sent)
        inUse = rateLease.bytesPerSecond
        bucket.grantLease(
            bytesPerSecond: inUse, until: monotonicNanoseconds() + UInt64(max(left, .zero).secondsValue * 1e9))
        return rateLease.isBelowUse
    }
}
