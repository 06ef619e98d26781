import HaulContract

/// How one download of `haul get` ended.
struct GetResult: Sendable {
    enum End: Sendable {
        /// The file was fetched.
        case completed
        /// The file was there already.
        case unchanged
        /// Another file has the name, and `--if-exists skip` keeps that file.
        case skipped
        /// The server has sent a Metalink, whose files are downloaded instead.
        case metalink
        case failed(Failure)
        /// The download was interrupted.
        case stopped
    }

    let end: End
    /// The file's path in its root.
    var file: String?
    var bytes: Int64?
    /// The duration of all attempts and of the pauses between them.
    var seconds: Double = 0
    /// Bytes received in that time.
    var transferred: Int64 = 0
    /// Bytes of the file that were there when the last attempt failed.
    var received: Int64 = 0
    /// The file's ETag at the server, if it gave one.
    var etag: String?
    /// `algorithm:hex`, if a checksum was computed.
    var checksum: String?
    /// What proves that the bytes are right, in a word or two.
    var verified = ""

    /// Bytes per second, on average.
    var speed: Int64? {
        guard case .completed = end, seconds > 0 else { return nil }
        return Int64(Double(transferred) / seconds)
    }

    var isFailed: Bool {
        switch end {
        case .failed, .stopped: true
        case .completed, .unchanged, .skipped, .metalink: false
        }
    }

    var word: String {
        switch end {
        case .completed: "completed"
        case .unchanged: "unchanged"
        case .skipped: "skipped"
        case .metalink: "metalink"
        case .failed: "failed"
        case .stopped: "interrupted"
        }
    }
}
