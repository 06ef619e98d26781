import Contract

extension JSON {
    /// The text of an object, of names and the texts of their values.
    static func object(_ members: [(name: String, value: String)]) -> String {
        "{" + members.map { "\(quoted($0.name)):\($0.value)" }.joined(separator: ",") + "}"
    }
}
