/// Writes the text of a JSON object, on one line. Members appear in the order in which they are set. No name may be set
/// twice.
package struct JSONObject: Sendable {
    /// The text of the members, without the braces around it.
    package private(set) var members = ""

    package init() {}

    /// The object as JSON text.
    package var text: String { "{\(members)}" }

    /// Sets a member to a string. nil leaves the member out.
    package mutating func set(_ name: String, _ text: String?) {
        guard let text else { return }
        begin(name)
        JSON.append(quoted: text, to: &members)
    }

    /// Sets a member to a whole number. nil leaves the member out.
    package mutating func set(_ name: String, _ number: (some BinaryInteger)?) {
        set(name, json: number.map { "\($0)" })
    }

    /// Sets a member to a number, which must be finite. nil leaves the member out.
    package mutating func set(_ name: String, _ number: Double?) { set(name, json: number.map { "\($0)" }) }

    package mutating func set(_ name: String, _ value: Bool) { set(name, json: value ? "true" : "false") }

    /// Sets a member to a JSON text, which is not checked. nil leaves the member out.
    package mutating func set(_ name: String, json: String?) {
        guard let json else { return }
        begin(name)
        members += JSON.onOneLine(json)
    }

    private mutating func begin(_ name: String) {
        if !members.isEmpty { members += "," }
        // Joined piece by piece: an interpolation would copy everything once more.
        JSON.append(quoted: name, to: &members)
        members += ":"
    }
}
