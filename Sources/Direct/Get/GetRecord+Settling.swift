import HaulBus
import HaulContract
import HaulFileStore
import HaulHTTP
import HaulStorage

extension GetRecord {
    /// Removes the hidden name of a run that was killed after it recorded its completed file.
    func discardHidden(in files: FileStore) async {
        guard let hidden, !hidden.isEmpty else { return }
        // Another download may have completed the file since.
        let file = completed?.file ?? (item?.folder ?? "") + hidden
        await files.discard(PartialLocation(file: file, key: key, generation: "", name: hidden))
    }

    /// Whether the download's object in a bucket is of another URL than `item`, which has the same name. To that download
    /// it is a foreign object, as a file would be. Then what is unfinished of this one is removed.
    mutating func isEnded(by item: GetItem, in store: any Store) async -> Bool {
        guard GetTarget.isBucket(root), completed != nil, !isFile(of: item.urls) else { return false }
        for location in partialLocations { await store.discard(location) }
        (resume, isOpen) = (nil, false)
        return true
    }

    /// Removes the hidden files that the last run has left beside a completed file. If that run was killed after it gave
    /// the file its name and before it recorded that, this becomes the record of the completed file. The caller has the
    /// lock of the download.
    ///
    /// - Returns: Whether it is certain that nothing hidden is left of the download.
    mutating func settle(
        in store: any Store, _ downloadLog: DownloadLog, isDurable: Bool
    ) async throws(TransferError) -> Bool {
        guard run != Self.notStarted else { return true }
        guard let files = store as? FileStore else { return false }
        guard isOpen else {
            guard hidden != nil else { return false }
            await discardHidden(in: files)
            return true
        }
        let (resume, item) = (resume, item)
        let found = try await files.placed(
            key, in: item?.folder ?? "", by: Token.make(), continuing: resume)
        guard let (file, proof) = found else { return resume == nil }
        // The file may have been there for long. A date ahead of the clock says nothing.
        let written = file.modified / 1_000_000
        let known = resume.flatMap { $0.generation == proof.generation ? $0 : nil }
        completed = CompletedFile(
            file: file.file, bytes: file.bytes, store: store.id, inode: file.identity, modified: file.modified,
            // Without a checkpoint the version is unknown. The next request finds out.
            entity: known?.entity ?? Entity(), source: known?.source ?? item?.urls.first.map(MaskedURL.text) ?? "",
            validated: written <= UnixTime.milliseconds ? written : 0)
        completed?.sourceResource = known?.sourceResource ?? ""
        await Aria2Control.remove(of: file.file, in: root)
        (isOpen, self.resume, unfinished, hidden) = (false, nil, nil, proof.name)
        await downloadLog.write(self, isDurable: isDurable)
        await files.discard(proof)
        return true
    }
}
