import HaulBus
import HaulContract
import HaulHTTP

// Which download has made a file.
extension DownloadLog {
    /// The file that an earlier download of the item's URL completed, and whether the file of the likely name is known to
    /// be of another URL.
    ///
    /// - Parameter isNew: The log has no record of this download, and none of the file.
    func owner(
        of item: GetItem, _ before: GetRecord?, _ store: String, isNew: Bool
    ) async -> (own: CompletedFile?, hasOtherURL: Bool) {
        if isNew { return (nil, false) }
        var own: CompletedFile?
        // The record may be of another URL whose file has the same name. That file is not reused.
        if let before, before.isFile(of: item.urls) { own = before.completed }
        guard !GetTarget.isBucket(item.root), let path = item.likelyPath,
            // A record has a completed file only while no other download has completed that file.
            own?.file != path || before?.root != item.root,
            let owner = await owner(of: path, in: item.root)
        else { return (own, false) }
        guard owner.isFile(of: item.urls) else { return (own, true) }
        var file = owner.completed
        // A record of another directory describes the same file by another path.
        if owner.root != item.root {
            file?.file = path
            file?.store = store
        }
        return (own ?? file, false)
    }
}
