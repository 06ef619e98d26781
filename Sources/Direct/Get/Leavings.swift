import HaulContract
import HaulStorage

/// The downloads that earlier runs of `haul get` left unfinished in a directory or below it.
struct Leavings {
    private let all: [GetRecord]
    private let journal: Journal

    init(_ records: [GetRecord], in root: String, _ journal: Journal) {
        all = records.filter { $0.root == root || $0.root.hasPrefix(root == "/" ? "/" : root + "/") }
        self.journal = journal
    }

    /// The records that no process works on, and that are not among `items`.
    func records(besides items: [GetItem]) async -> [GetRecord] {
        let named = Set(items.map(\.key))
        var free: [GetRecord] = []
        for record in all where !named.contains(record.key) {
            if await journal.lock(record.key) != nil { free.append(record) }
        }
        return free
    }

    /// One line for the user; nil without records.
    static func words(_ records: [GetRecord]) -> String? {
        guard !records.isEmpty else { return nil }
        let names = records.prefix(3).map(name)
        let more = records.count > 3 ? " and \(records.count - 3) more" : ""
        let what = records.count == 1 ? "a download" : "\(records.count) downloads"
        return "an earlier haul get left \(what) unfinished (\(names.joined(separator: ", "))\(more)): "
            + "continue with --continue, or remove with --forget"
    }

    static func name(of record: GetRecord) -> String { record.resume?.file ?? record.item?.label ?? record.key }

    /// Removes the partial file and the record.
    func forget(_ record: GetRecord, in store: any Store) async {
        guard let lock = await journal.lock(record.key) else { return }
        defer { withExtendedLifetime(lock) {} }
        // The last run may have been killed before it recorded its partial file.
        if let file = record.resume?.file ?? record.item?.likelyPath {
            await store.discardUnplaced(
                [record.resume?.generation, record.run].compactMap(\.self).map {
                    PartialPlace(file: file, key: record.key, generation: $0)
                })
        }
        await journal.remove(record.key)
    }
}
