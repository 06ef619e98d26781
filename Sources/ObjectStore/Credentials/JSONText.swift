import HaulContract

/// The string members of a JSON object. An empty string counts as absent.
struct JSONText {
    private let json: JSON

    init(_ bytes: [UInt8]) throws { json = try JSON(bytes) }

    subscript(_ name: String) -> String? {
        json.members?.first { $0.name == name }?.value.string.flatMap { $0.isEmpty ? nil : $0 }
    }
}
