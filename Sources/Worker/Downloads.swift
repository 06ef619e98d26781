import HaulActivities
import Synchronization

/// What downloads that are begun from now on go by.
final class Downloads: Sendable {
    private let state: Mutex<DownloadContext>

    init(_ context: DownloadContext) { state = Mutex(context) }

    var context: DownloadContext { state.withLock { $0 } }

    func change(_ body: (inout sending DownloadContext) -> Void) { state.withLock { body(&$0) } }
}
