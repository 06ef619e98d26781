/// A reply (RESP2).
package enum RedisValue: Sendable, Equatable {
    case null
    case integer(Int)
    case status(String)
    case bulk([UInt8])
    case array([RedisValue])
    /// Indirect, so that the other values are small.
    indirect case error(RedisError)

    /// The text of a bulk, status or integer, with invalid UTF-8 repaired. nil for all other kinds.
    package var string: String? {
        switch self {
        case .bulk(let bytes): String(decoding: bytes, as: UTF8.self)
        case .status(let text): text
        case .integer(let number): String(number)
        case .null, .array, .error: nil
        }
    }

    package var bytes: [UInt8]? { if case .bulk(let bytes) = self { bytes } else { nil } }

    /// The number of an integer, or of a text that is a decimal number.
    package var int: Int? {
        if case .integer(let number) = self { return number }
        return string.flatMap { Int($0) }
    }

    package var array: [RedisValue]? { if case .array(let elements) = self { elements } else { nil } }

    /// The fields and values of a reply such as that of HGETALL. Leaves out values that are not text.
    package var dictionary: [String: String] { members.compactMapValues(\.string) }

    /// The fields and values of a reply such as that of HGETALL, with values of any kind.
    package var members: [String: RedisValue] {
        var result: [String: RedisValue] = [:]
        let elements = array ?? []
        for index in stride(from: 0, to: elements.count - 1, by: 2) {
            if let field = elements[index].string { result[field] = elements[index + 1] }
        }
        return result
    }

    /// The fields of a reply of INFO.
    package var infoFields: [String: Substring] {
        let lines = string?.split(whereSeparator: \.isNewline) ?? []
        let pairs = lines.compactMap { line in
            line.firstIndex(of: ":").map { (String(line[..<$0]), line[line.index(after: $0)...]) }
        }
        return Dictionary(pairs) { $1 }
    }

    /// Returns this value unless it is an error reply.
    ///
    /// - Throws: The error of an error reply.
    package func get() throws(RedisError) -> RedisValue {
        if case .error(let error) = self { throw error }
        return self
    }
}
