import HaulContract

/// How one download of `haul get` ended.
struct GetResult: Sendable {
    enum End: Sendable {
        /// It was fetched.
        case completed
        /// It was there already.
        case unchanged
        /// Another file has its name, which was to be left.
        case skipped
        case failed(Failure)
        /// It was interrupted.
        case stopped
    }

    let end: End
    /// The file's path in its root.
    var file: String?
    var bytes: Int64?
    /// From its beginning to its end, with all attempts.
    var seconds: Double = 0
    /// Bytes that came in that time.
    var moved: Int64 = 0
    /// `algorithm:hex` if one was computed.
    var checksum: String?
    /// What tells that the bytes are right, in a word or two.
    var verified = ""

    /// Bytes per second, on average.
    var speed: Int64? {
        guard case .completed = end, seconds > 0 else { return nil }
        return Int64(Double(moved) / seconds)
    }

    var isFailed: Bool {
        switch end {
        case .failed, .stopped: true
        case .completed, .unchanged, .skipped: false
        }
    }

    var word: String {
        switch end {
        case .completed: "completed"
        case .unchanged: "unchanged"
        case .skipped: "skipped"
        case .failed: "failed"
        case .stopped: "interrupted"
        }
    }
}
