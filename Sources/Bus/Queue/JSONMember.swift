import HaulContract

/// A member of a JSON object that the API writes. docs/reference/openapi.json is generated from these declarations.
package struct JSONMember: Sendable {
    package enum Kind: Sendable, Equatable {
        case text, id, integer, integers, decimal, flag, any, headers, files, attempts, intervals, names
        case choice([String])
        /// A whole number, or one of these words.
        case integerOr(String)
        /// An object that has a number for each of these names.
        case counts([String])
        /// Pairs of a name and a number, the greatest number first.
        case ranking
        /// `of`: how many failures were counted; `by_error` and `by_host`: rankings; `groups`: by both.
        case failures
        /// An object of another schema of docs/reference/openapi.json, or a list of such objects.
        case object(String), objects(String)
    }

    package let name: String
    package let kind: Kind
    /// What the member means, for docs/reference/openapi.json.
    package let meaning: String
    /// Every object has it.
    package let isAlways: Bool
    /// It may be private, because a server sent it. Viewers of the page do not see it, and lists leave it out.
    package let isResponse: Bool

    package init(
        _ name: String, _ kind: Kind, _ meaning: String, isAlways: Bool = false, isResponse: Bool = false
    ) {
        (self.name, self.kind, self.meaning) = (name, kind, meaning)
        (self.isAlways, self.isResponse) = (isAlways, isResponse)
    }
}

extension JSONMember.Kind {
    /// The text of a hash's field as JSON; nil if it does not have this type.
    package func json(_ text: String) -> String? {
        switch self {
        case .text, .id, .choice: JSON.quoted(text)
        case .integer: Int64(text).map { "\($0)" }
        case .integerOr(let word): text == word ? JSON.quoted(word) : Int64(text).map { "\($0)" }
        case .decimal: Double(text).flatMap { $0.isFinite ? "\($0)" : nil }
        case .flag: text == "1" ? "true" : text == "0" ? "false" : nil
        case .any: (try? JSON(text)) == nil ? nil : text
        case .headers:
            (try? JSON(text))?.members?.allSatisfy { $0.value.string != nil } == true ? text : nil
        case .files, .attempts: (try? JSON(text))?.array == nil ? nil : text
        case .intervals, .integers, .names, .counts, .ranking, .failures, .object, .objects: nil
        }
    }
}
