import HaulBus
import HaulContract
import HaulFileStore
import HaulStorage

/// The downloads that earlier runs of `haul get` left unfinished in a directory or below it.
struct UnfinishedDownloads {
    private let all: [GetRecord]
    private let downloadLog: DownloadLog

    init(_ records: [GetRecord], in root: String, _ downloadLog: DownloadLog) {
        all = records.filter { Self.isIn(root, $0) }
        self.downloadLog = downloadLog
    }

    /// Whether the file of a download is in this directory or below it, whatever directory its command was given.
    private static func isIn(_ root: String, _ record: GetRecord) -> Bool {
        let directory = record.item?.directory ?? record.root + "/"
        return directory.hasPrefix(root == "/" ? root : root + "/")
    }

    /// Removes the hidden names of downloads in this directory and below it that were killed after they had recorded
    /// their completed files.
    static func removeHidden(in root: String, _ settings: TransferSettings, _ downloadLog: DownloadLog) async {
        for record in await downloadLog.ended() where record.hidden?.isEmpty == false && isIn(root, record) {
            guard !GetTarget.isBucket(record.root), let store = try? await settings.stores.store(record.root),
                let files = store as? FileStore,
                // A run that removes its hidden name itself has the lock.
                let claim = await downloadLog.claim(record.key), let last = claim.record, !last.isOpen
            else { continue }
            await last.discardHidden(in: files)
            withExtendedLifetime(claim) {}
        }
    }

    /// Completes the records of downloads that were killed after their files had got their names, so that these files
    /// are known whatever command finds them next.
    ///
    /// - Parameters:
    ///   - records: The downloads that have begun and not ended.
    ///   - root: The files in this directory and below it are looked at, and those beside the files of `items`.
    static func settle(
        _ records: [GetRecord], in root: String, _ items: [GetItem], _ settings: TransferSettings,
        _ downloadLog: DownloadLog
    ) async {
        let directories = Set(items.map(\.directory))
        // A directory is listed once, however many downloads were killed in it.
        var placed: [String: Set<String>] = [:]
        for record in records where record.run != GetRecord.notStarted && !GetTarget.isBucket(record.root) {
            guard let item = record.item, directories.contains(item.directory) || isIn(root, record),
                let store = try? await settings.stores.store(record.root), let files = store as? FileStore
            else { continue }
            if placed[item.directory] == nil { placed[item.directory] = await files.placedKeys(in: item.folder) }
            guard placed[item.directory]?.contains(record.key) == true,
                let claim = await downloadLog.claim(record.key), var last = claim.record, last.isOpen
            else { continue }
            // What cannot be settled now is found again by the next command.
            _ = try? await last.settle(in: store, downloadLog, isDurable: settings.isDurable)
            withExtendedLifetime(claim) {}
        }
    }

    /// The records that no process works on, and that are not among `items`.
    func records(besides items: [GetItem]) async -> [GetRecord] {
        let named = Set(items.map(\.key))
        var free: [GetRecord] = []
        for record in all where !named.contains(record.key) {
            if await downloadLog.lock(record.key) != nil { free.append(record) }
        }
        return free
    }

    /// One line for the user; nil without records.
    static func summary(of records: [GetRecord]) -> String? {
        guard !records.isEmpty else { return nil }
        let subject = records.count == 1 ? "a download" : "\(records.count) downloads"
        let way = records.allSatisfy(\.isPartial) ? "give the same list again" : "continue with --continue"
        return "an earlier haul get left \(subject) unfinished (\(names(of: records))): \(way), or remove with --forget"
    }

    /// One line about those whose servers get no passwords, because an older version has not recorded who chose their
    /// URLs; nil without such records.
    static func unknownSources(of records: [GetRecord]) -> String? {
        let records = records.filter { $0.urlSource == .unknown }
        guard !records.isEmpty else { return nil }
        return "an older version has recorded \(names(of: records)), and not who chose the URL: "
            + "its server gets no -u, --bearer, -H or -b unless you give the URL again"
    }

    /// One line about those that only their list can continue.
    static func refusal(of records: [GetRecord]) -> String {
        "not continued: \(names(of: records)), because the body or header fields of the list are not recorded: "
            + "give the same list again, or remove what is left with --forget"
    }

    private static func names(of records: [GetRecord]) -> String {
        records.prefix(3).map(name).joined(separator: ", ")
            + (records.count > 3 ? " and \(records.count - 3) more" : "")
    }

    static func name(of record: GetRecord) -> String { record.resume?.file ?? record.item?.label ?? record.key }

    /// Removes the partial file and the record.
    func forget(_ record: GetRecord, in store: any DurableStore) async {
        guard let lock = await downloadLog.lock(record.key) else { return }
        defer { withExtendedLifetime(lock) {} }
        // The last run may have been killed before it recorded its partial file.
        if let files = store as? FileStore {
            let placed = try? await files.placed(
                record.key, in: record.item?.folder ?? "", by: Token.make(), continuing: nil)
            if let placed { await files.discard(placed.proof) }
        }
        let locations = record.partialLocations
        for location in locations { await store.withdrawUnanswered(location) }
        await store.discardUnplaced(locations)
        await downloadLog.remove(record.key)
    }
}
