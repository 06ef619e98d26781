import ArgumentParser
import Glibc
import HaulContract
import HaulHTTP

extension RateSchedule {
    /// Reads the option `--limit-rate`.
    @Sendable static func option(_ text: String) throws -> RateSchedule {
        guard let schedule = RateSchedule(text) else { throw ValidationError("\(rule), not \"\(text)\"") }
        if let zone = schedule.unknownZone {
            throw ValidationError(
                "this machine does not know the time zone \(zone): an IANA name is like Europe/Berlin")
        }
        return schedule
    }

    /// A bucket with the rate of this time.
    var bucket: TokenBucket {
        let bucket = TokenBucket()
        apply(to: bucket)
        return bucket
    }

    /// Sets the bucket to the rate of this time. Times without a zone are those of this machine's zone.
    func apply(to bucket: TokenBucket) {
        var (now, parts) = (time(nil), tm())
        localtime_r(&now, &parts)
        guard let rate = rate(at: Int64(now), offset: parts.tm_gmtoff) else { return bucket.removeLimit() }
        // A bucket without a limit has endless credit, which `setRate` would keep.
        if bucket.bytesPerSecond == .max {
            bucket.grantLease(bytesPerSecond: rate, until: .max)
        } else {
            bucket.setRate(bytesPerSecond: rate)
        }
    }
}
