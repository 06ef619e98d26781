package import HaulContract

extension JSON {
    /// The text of an object. Each `value` is JSON already.
    package static func object(_ members: [(name: String, value: String)]) -> String {
        members.reduce(into: JSONObject()) { $0.set($1.name, json: $1.value) }.text
    }

    /// The fields of a Redis hash as members of an object, sorted by name.
    ///
    /// - Parameter raw: Fields whose value is inserted as it is, if it is valid JSON. All other values become strings.
    package static func members(_ fields: some Sequence<(key: String, value: String)>, raw: Set<String>) -> [(
        String, String
    )] {
        fields.sorted { $0.key < $1.key }.map { name, value in
            (name, raw.contains(name) && (try? JSON(value)) != nil ? value : quoted(value))
        }
    }
}
