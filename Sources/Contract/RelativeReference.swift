/// Resolves relative URLs (RFC 3986, section 5.2) against a queue's `base`. Defaults.with_absolute_url() of
/// Bus/Lua/claim/defaults.lua does the same for the claim. Compares bytes: Swift joins "/" and a combining mark into one
/// character.
package enum RelativeReference {
    /// An element with its relative `url` made absolute, as the claim keeps it; nil if that is not a valid URL.
    ///
    /// - Parameter json: What was read from `element`.
    package static func absolute(_ element: [UInt8], _ json: JSON, base: String) -> [UInt8]? {
        guard URLRule.accepts(base), let member = json.members?.first(where: { $0.name == "url" }),
            let reference = member.value.string, let url = resolve(reference, base: base), URLRule.accepts(url)
        else { return nil }
        var absolute = element
        absolute.replaceSubrange(member.bytes.indices, with: JSON.quoted(url).utf8)
        return absolute
    }

    /// nil if the reference is empty, absolute or invalid.
    private static func resolve(_ reference: String, base: String) -> String? {
        let reference = Array(reference.utf8)
        guard 1...URLRule.maxBytes ~= reference.count, !reference.contains(where: { $0 <= 32 || $0 == 127 }),
            !beginsWithScheme(reference)
        else { return nil }
        let base = Array(base.utf8).prefix { $0 != UInt8(ascii: "#") }
        guard let colon = base.firstIndex(of: UInt8(ascii: ":")) else { return nil }
        let authority = base.dropFirst(colon + 3).prefix { !isPathEnd($0) && $0 != slash }
        let path = base[authority.endIndex...].prefix { !isPathEnd($0) }
        let own = reference.prefix { !isPathEnd($0) }
        let rest = reference[own.endIndex...]
        let resolved: [UInt8]
        if reference.starts(with: [slash, slash]) {
            resolved = Array(base[...colon]) + reference
        } else if own.isEmpty {
            let kept = rest.first == UInt8(ascii: "#") ? base[...] : base[..<path.endIndex]
            resolved = Array(kept) + rest
        } else {
            let folder = own.first == slash ? [] : path.lastIndex(of: slash).map { Array(path[...$0]) } ?? [slash]
            resolved = Array(base[..<authority.endIndex]) + withoutDots(folder + own) + rest
        }
        return String(decoding: resolved, as: UTF8.self)
    }

    private static let slash = UInt8(ascii: "/")

    private static func isPathEnd(_ byte: UInt8) -> Bool { byte == UInt8(ascii: "?") || byte == UInt8(ascii: "#") }

    private static func beginsWithScheme(_ reference: [UInt8]) -> Bool {
        let name = reference.prefix {
            97...122 ~= $0 | 32 || 48...57 ~= $0
                || [UInt8(ascii: "+"), UInt8(ascii: "."), UInt8(ascii: "-")].contains($0)
        }
        guard let first = name.first, 97...122 ~= first | 32 else { return false }
        return name.endIndex < reference.count && reference[name.endIndex] == UInt8(ascii: ":")
    }

    /// A path, which begins with a slash, without its segments `.` and `..` (section 5.2.4).
    private static func withoutDots(_ path: [UInt8]) -> [UInt8] {
        let segments = path.dropFirst().split(separator: slash, omittingEmptySubsequences: false)
        let (here, above) = ("."[...].utf8, ".."[...].utf8)
        var kept: [ArraySlice<UInt8>] = []
        for segment in segments {
            if segment.elementsEqual(above) {
                _ = kept.popLast()
            } else if !segment.elementsEqual(here) {
                kept.append(segment)
            }
        }
        let isFolder = segments.last.map { $0.elementsEqual(here) || $0.elementsEqual(above) } ?? false
        return [slash] + kept.joined(separator: [slash]) + (isFolder && !kept.isEmpty ? [slash] : [])
    }
}
