/// What a later push compares with its own URL and conditions, as one field. Its first word names the bytes that it and
/// the fields of the entity are about: a finished file and an unfinished one share these fields of a hash. A worker of
/// version 0.2 leaves the field as it is when it records other bytes.
struct Provenance {
    /// `SourcedRecord.sourceResource`
    var resource = ""
    /// `ResumePoint.contentType`
    var contentType: String?

    init(resource: String, contentType: String? = nil) { (self.resource, self.contentType) = (resource, contentType) }

    /// - Parameter name: Names the bytes of the record that is read.
    init(_ text: String?, of name: String) {
        let words = (text ?? "").split(separator: " ", maxSplits: 2).map(String.init)
        guard words.count == 3, words[0] == name else { return }
        if words[1] != Self.absent { resource = words[1] }
        if words[2] != Self.absent { contentType = words[2] }
    }

    func text(of name: String) -> String {
        "\(name) \(resource.isEmpty ? Self.absent : resource) \(contentType ?? Self.absent)"
    }

    /// The same, or "" (an absent field) if there is nothing to compare. An ended job needs no name then: only the record
    /// of later bytes has one, which differs.
    func textIfAny(of name: String) -> String { resource.isEmpty && contentType == nil ? "" : text(of: name) }

    /// Whether `text` is about other bytes than those that `name` names.
    static func isAboutOther(_ text: String?, than name: String) -> Bool {
        text.nonEmpty.map { !$0.hasPrefix(name + " ") } ?? false
    }

    private static let absent = "-"
}
