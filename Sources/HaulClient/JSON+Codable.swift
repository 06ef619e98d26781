import FoundationEssentials

extension JSON {
    /// `value` as JSON text.
    ///
    /// - Throws: `.invalidJob` with the field `meta` if the value cannot be encoded.
    static func text(of value: some Encodable) throws(HaulError) -> String {
        let encoder = JSONEncoder()
        // Sorted keys: equal values have equal texts, and an id may be derived from a job's text.
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        do { return String(decoding: try encoder.encode(value), as: UTF8.self) } catch {
            throw HaulError(Job.Invalid(field: "meta", reason: "cannot be written as JSON: \(error)"))
        }
    }

    /// Decodes the value with JSONDecoder.
    ///
    ///     let order = try result.meta?.decode(Order.self)
    ///
    /// - Throws: DecodingError if the value does not fit the type.
    public func decode<Value: Decodable>(_ type: Value.Type) throws -> Value {
        try JSONDecoder().decode(type, from: Data(text.utf8))
    }
}
