import HaulDownload
import HaulHTTP
import HaulTestSupport

extension DownloadContext {
    /// What the downloads into `root` share.
    init(root: TemporaryDirectory) throws {
        let engine = TransferEngine(configuration: TransferEngine.Configuration(), path: WritePath())
        self.init(store: try Store(root: root.path), engine: engine)
    }
}
