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
