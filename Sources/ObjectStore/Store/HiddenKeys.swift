/// The keys of what is not finished, beneath `PREFIX/.haul/`: a folder for each generation of each job.
///
/// `owner` holds the token of the run that has it; `u.<id>` tells of an upload, and holds the key that it is for; `t.<name>` is a tail;
/// `whole` is an object whose digest is being compared.
struct HiddenKeys: Sendable, Hashable {
    let job: String
    let generation: String

    init(job: String, generation: String) { (self.job, self.generation) = (job, generation) }

    static let root = ".haul/"

    /// Of all generations of a job.
    static func prefix(ofJob job: String) -> String { "\(root)\(job)." }

    /// Written to see whether anything can be.
    static let probe = "\(root)probe"

    var folder: String { "\(Self.root)\(job).\(generation)/" }
    var owner: String { folder + "owner" }
    var whole: String { folder + "whole" }
    func upload(_ id: String) -> String { folder + "u." + URIText.encode(id) }
    func tail(_ name: String) -> String { folder + "t." + name }

    /// What a hidden key is of.
    enum Kind: Equatable {
        case owner, whole
        case upload(String)
        case tail(String)
    }

    /// nil for a path that is not hidden, or that nobody here has made.
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
        case let name where name.hasPrefix("u."):
            return PartsJournal.decoded(name.dropFirst(2)).map { (keys, .upload($0)) }
        case let name where name.hasPrefix("t."): return (keys, .tail(String(name.dropFirst(2))))
        default: return nil
        }
    }
}
