import HaulContract

/// The texts of a JSON object.
struct JSONText {
    private let json: JSON

    init(_ bytes: [UInt8]) throws { json = try JSON(bytes) }

    subscript(_ name: String) -> String? {
        json.members?.first { $0.name == name }?.value.string.flatMap { $0.isEmpty ? nil : $0 }
    }
}
