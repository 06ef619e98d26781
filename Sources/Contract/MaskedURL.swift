/// URLs without their secrets, for events, logs and messages.
public enum MaskedURL {
    /// `url` without credentials and fragment, its query string replaced.
    public static func text(_ url: String) -> String {
        // By scalars: to Swift an "@" beside a combining mark is another character.
        var rest = url.unicodeScalars[...]
        if let fragment = rest.firstIndex(of: "#") { rest = rest[..<fragment] }
        var suffix = ""
        if let query = rest.firstIndex(of: "?") {
            rest = rest[..<query]
            suffix = "?[masked]"
        }
        guard let scheme = rest.firstRange(of: "://".unicodeScalars) else { return String(rest) + suffix }
        let authority = rest[scheme.upperBound...].prefix { $0 != "/" }
        guard let at = authority.lastIndex(of: "@") else { return String(rest) + suffix }
        return String(rest[..<scheme.upperBound]) + String(rest[rest.index(after: at)...]) + suffix
    }
}
