import Glibc

/// The wall clock of this machine (CLOCK_REALTIME), since 1970.
package enum UnixTime {
    package static var milliseconds: Int64 {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000
    }

    package static var seconds: Int64 { milliseconds / 1000 }
}

/// A clock that all workers agree on: the time of Redis from a reply, continued by this process' monotonic clock. A
/// worker's wall clock may be wrong, and may jump.
package struct SharedClock: Sendable {
    private let serverTime: Int64
    private let received: ContinuousClock.Instant

    /// - Parameters:
    ///   - serverTime: Unix milliseconds, from a reply that has just arrived.
    ///   - received: When the reply arrived.
    package init(serverTime: Int64, received: ContinuousClock.Instant = .now) {
        (self.serverTime, self.received) = (serverTime, received)
    }

    /// Unix milliseconds now.
    package var milliseconds: Int64 { serverTime + Int64((ContinuousClock.now - received).milliseconds) }
}

extension Duration {
    /// Whole milliseconds, rounded down.
    package var milliseconds: Int {
        let (seconds, attoseconds) = components
        return Int(seconds) * 1000 + Int(attoseconds / 1_000_000_000_000_000)
    }

    /// Seconds, with the fraction.
    package var secondsValue: Double {
        let (seconds, attoseconds) = components
        return Double(seconds) + Double(attoseconds) / 1e18
    }
}
