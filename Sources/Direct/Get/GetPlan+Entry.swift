import HaulContract

extension GetPlan {
    /// One download of a list, before the command's own options are added.
    struct Entry {
        /// Names and JSON values of the job's members, without `path` and `if_exists`.
        var members: [(String, String)] = []
        /// The path that the list gives.
        var path: String?
        var directory: String?
        /// The absolute directory of a file that a Metalink's files replace.
        var root: String?
        var ifExists: ExistingPolicy?
        var isOnlyNewer = false
        /// A URL was given without a scheme, so https was assumed.
        var isSchemeAssumed = false
        /// Where the bytes are written as they arrive.
        var stream: String?
        var origin: String?
        /// The URL of the list; nil if the list is the user's own.
        var server: String?

        /// Sets a member, instead of the value that it has.
        mutating func set(_ name: String, _ json: String) {
            members.removeAll { $0.0 == name }
            members.append((name, json))
        }

        /// Adds what another entry of the same file and URLs says besides.
        ///
        /// - Returns: The name of what the two say differently; nil if they agree.
        mutating func unite(with other: Entry) -> String? {
            // `haul get` does not use the id.
            for (name, json) in other.members where name != "id" {
                let own = members.first { $0.0 == name }?.1
                guard own == nil || own == json else { return name }
                if own == nil { members.append((name, json)) }
            }
            if let policy = other.ifExists {
                guard ifExists == nil || ifExists == policy else { return "if-exists" }
                ifExists = policy
            }
            isOnlyNewer = isOnlyNewer || other.isOnlyNewer
            // The user has named the URLs as well, or a list of their own origin has.
            if !URLSource(list: server).isTrusted(with: urls), URLSource(list: other.server).isTrusted(with: urls) {
                (server, origin) = (other.server, other.origin)
            }
            return nil
        }

        var urls: [String] {
            get {
                members.first { $0.0 == "urls" || $0.0 == "url" }.flatMap { try? JSON($0.1) }
                    .map { $0.array?.compactMap(\.string) ?? [$0.string].compactMap(\.self) } ?? []
            }
            set {
                members.removeAll { $0.0 == "urls" || $0.0 == "url" }
                let texts = newValue.map(JSON.quoted)
                members.insert(
                    texts.count == 1 ? ("url", texts[0]) : ("urls", "[\(texts.joined(separator: ","))]"), at: 0)
            }
        }
    }
}
