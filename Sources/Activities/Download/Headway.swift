import HaulContract
import HaulStorage

/// What counts as progress of a file: so many more of its bytes are there to stay that a broken connection is only a step
/// on the way. It is bounded, so that a server that gives a byte to each connection is not asked for ever.
enum Headway {
    /// 64 KiB are worth a connection. Of a short file a part is.
    private static let enough: Int64 = 64 << 10
    private static let parts: Int64 = 16

    static func isEnough(_ bytes: Int64, of total: Int64) -> Bool {
        bytes >= max(1, min(enough, total / parts))
    }
}

extension Download {
    package var isRepeatable: Bool { job.method == "GET" }

    package var hasMadeHeadway: Bool {
        guard isResumable else { return false }
        let (written, total) = (generation?.partial.written.count, generation?.entity.total)
        guard let written, let total else { return false }
        return Headway.isEnough(written - (resume?.offsets.count ?? 0), of: total)
    }
}
