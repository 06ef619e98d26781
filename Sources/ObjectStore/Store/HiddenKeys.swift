import HaulContract

/// The keys of unfinished objects, beneath `PREFIX/.haul/`: a folder for each generation of each job.
///
/// `owner` holds the token of the run that has the generation. `u.<id>` stands for a multipart upload, and holds the
/// key of its object. `c.<name>` holds the key of an upload that is about to begin. `t.<name>` is a tail. `whole` is a
/// complete object whose digest is not verified yet. `naming` holds the key that a run began to give its object, if it
/// did not learn whether that succeeded. `n.<digest>` belongs to a name, and not to a generation.
struct HiddenKeys: Sendable, Hashable {
    let job: String
    let generation: String

    init(job: String, generation: String) { (self.job, self.generation) = (job, generation) }

    static let root = ".haul/"

    /// The prefix of the keys of all generations of a job.
    static func prefix(ofJob job: String) -> String { "\(root)\(job)." }

    /// Written to find out whether the bucket accepts writes.
    static let probe = "\(root)probe"

    private static let claims = "\(root)n."
    static func claim(ofName path: String) -> String { claims + Hexadecimal.text(Digest.sha256(path.utf8)) }
    static func isClaim(_ path: String) -> Bool { path.hasPrefix(claims) }

    var folder: String { "\(Self.root)\(job).\(generation)/" }
    var owner: String { folder + "owner" }
    var whole: String { folder + "whole" }
    var naming: String { folder + "naming" }
    func upload(_ id: String) -> String { folder + "u." + URIText.encode(id) }
    func intent(_ name: String) -> String { folder + "c." + name }
    func tail(_ name: String) -> String { folder + "t." + name }

    /// The kinds of hidden objects.
    enum Kind: Equatable {
        case owner, whole, naming, intent
        case upload(String)
        case tail(String)
    }

    /// Parses a path; nil if it is not hidden, or if Haul makes no such path.
    static func parse(_ path: String) -> (keys: HiddenKeys, kind: Kind)? {
        guard path.hasPrefix(root) else { return nil }
        let parts = path.dropFirst(root.count).split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count == 2, let dot = parts[0].firstIndex(of: ".") else { return nil }
        let (job, generation) = (parts[0][..<dot], parts[0][parts[0].index(after: dot)...])
        guard job.utf8.count == 40, job.allSatisfy(\.isHexDigit), !generation.isEmpty else { return nil }
        let keys = HiddenKeys(job: String(job), generation: String(generation))
        switch parts[1] {
        case "owner": return (keys, .owner)
        case "whole": return (keys, .whole)
        case "naming": return (keys, .naming)
        case let name where name.hasPrefix("u."):
            return PartsRecord.decoded(name.dropFirst(2)).map { (keys, .upload($0)) }
        case let name where name.hasPrefix("c."): return (keys, .intent)
        case let name where name.hasPrefix("t."): return (keys, .tail(String(name.dropFirst(2))))
        default: return nil
        }
    }
}
