import HaulContract
import HaulHTTP
import HaulStorage

/// Decides whether so many new bytes have arrived that a broken connection counts as progress, not as a failure. The
/// minimum keeps a download from requesting the file for ever from a server that sends one byte per connection.
enum RetryProgress {
    /// 64 KiB are enough, or a sixteenth of a short file.
    private static let enough: Int64 = 64 << 10
    private static let parts: Int64 = 16

    static func isEnough(_ bytes: Int64, of total: Int64) -> Bool {
        bytes >= max(1, min(enough, total / parts))
    }
}

extension Download {
    /// Whether the request may be sent again. One of another method may be carried out twice by its server.
    var isRepeatable: Bool { job.method == "GET" || !sending.hasBegun }

    /// A failure after the last byte is none of the connection. If it counted as progress, a file that can never be
    /// finished would be fetched for ever.
    var hasMadeProgress: Bool {
        guard isResumable else { return false }
        let (written, total) = (generation?.partial.resumable.count, generation?.entity.total)
        guard let written, let total, written < total else { return false }
        return RetryProgress.isEnough(written - (resume?.offsets.count ?? 0), of: total)
    }
}
