import HaulContract
import HaulHTTP
import HaulStorage

/// The path of a finished object.
struct ObjectName: Sendable, Equatable {
    /// Empty for the store itself, else with a "/" at its end.
    let folder: String
    var name: String
    /// The job gave the path with the name. A name that Haul chose may be changed.
    let isGiven: Bool

    /// The highest number in "name (1).ext" and so on.
    static let maxNumber = 10_000

    var path: String { folder + name }

    init(_ path: String?, suggested: String) {
        let path = path ?? ""
        isGiven = !path.isEmpty && path.utf8.last != UInt8(ascii: "/")
        let parts = (isGiven ? path : path + suggested).pathParts
        name = parts.last.map { String($0) } ?? "download"
        folder = parts.dropLast().map { $0 + "/" }.joined()
    }

    /// A path that an earlier run chose.
    init(chosen path: String, isGiven: Bool) {
        let parts = path.pathParts
        name = parts.last.map { String($0) } ?? "download"
        folder = parts.dropLast().map { $0 + "/" }.joined()
        self.isGiven = isGiven
    }

    func numbered(_ number: Int) -> ObjectName {
        var result = self
        if number > 0 { result.name = FileName.numbered(name, number) }
        return result
    }
}
