package import HaulContract

extension JSON {
    /// The text of an object, of names and the texts of their values.
    package static func object(_ members: [(name: String, value: String)]) -> String {
        members.reduce(into: JSONObject()) { $0.set($1.name, json: $1.value) }.text
    }

    /// A hash's fields in order, as members: those that are `raw` as the JSON that they are, if they are, others as texts.
    package static func members(_ fields: some Sequence<(key: String, value: String)>, raw: Set<String>) -> [(
        String, String
    )] {
        fields.sorted { $0.key < $1.key }.map { name, value in
            (name, raw.contains(name) && (try? JSON(value)) != nil ? value : quoted(value))
        }
    }
}
