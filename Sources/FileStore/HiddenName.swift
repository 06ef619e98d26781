/// A hidden name of Haul's own, beside finished files: `.haul-<key>-<generation>` for the partial file of a generation,
/// followed by `-<run>` once a later run has taken the file over.
struct HiddenName: Hashable {
    enum Kind: Hashable {
        /// The file that a download is written to. It gets its final name by one call whose source is this name. So a
        /// run that renames the file fences an earlier run, which only knows the old name.
        case partial
        /// Proves that the file has its final name: a link to the file, or a record of it if there are no links.
        case proof
        /// A temporary file of an earlier version of Haul, which it renamed over a file that was to be replaced.
        case legacy
    }

    static let prefix = ".haul-"
    private static let proofSuffix = "-placed"
    private static let legacySuffix = "-placing"

    /// sha1 of the queue and the job's id.
    let key: String
    let generation: String
    /// The token of the run that took the file over; nil if none did.
    let holder: String?
    let kind: Kind
    let text: String

    init(_ key: String, _ generation: String) {
        (self.key, self.generation, holder, kind) = (key, generation, nil, .partial)
        text = "\(Self.prefix)\(key)-\(generation)"
    }

    private init(_ name: HiddenName, by holder: String?, _ kind: Kind, _ text: String) {
        (key, generation, self.holder, self.kind, self.text) = (name.key, name.generation, holder, kind, text)
    }

    /// nil for other names than Haul's own.
    init?(_ name: String) {
        guard name.hasPrefix(Self.prefix) else { return nil }
        let parts = name.split(separator: "-", omittingEmptySubsequences: false)
        guard parts.count >= 3, parts[1].utf8.count == 40 else { return nil }
        (key, generation, text) = (String(parts[1]), String(parts[2]), name)
        holder = parts.count > 3 && parts[3].utf8.count == 32 ? String(parts[3]) : nil
        kind = name.hasSuffix(Self.proofSuffix) ? .proof : name.hasSuffix(Self.legacySuffix) ? .legacy : .partial
    }

    /// The partial file's name once `run` has taken it over.
    func takenOver(by run: String) -> HiddenName {
        HiddenName(self, by: run, .partial, "\(Self.prefix)\(key)-\(generation)-\(run)")
    }

    /// The name of the proof for the file that had this name until it was complete.
    var proof: HiddenName { HiddenName(self, by: holder, .proof, text + Self.proofSuffix) }
}
