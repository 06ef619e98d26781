import FoundationEssentials

extension JSON {
    /// `value` as JSON text.
    static func text(of value: some Encodable) throws(HaulError) -> String {
        let encoder = JSONEncoder()
        // The same value is always the same text, and so the same job.
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        do { return String(decoding: try encoder.encode(value), as: UTF8.self) } catch {
            throw HaulError(Job.Invalid(field: "meta", reason: "cannot be written as JSON: \(error)"))
        }
    }

    /// Reads the value as a type of one's own, as with JSONDecoder.
    ///
    ///     let order = try result.meta?.decode(Order.self)
    ///
    /// - Throws: DecodingError.
    public func decode<Value: Decodable>(_ type: Value.Type) throws -> Value {
        try JSONDecoder().decode(type, from: Data(text.utf8))
    }
}
