/// A JSON value as it was written (RFC 8259): numbers keep their digits, objects their order, and members their raw
/// text. So what a producer wrote is never re-encoded.
public enum JSON: Sendable, Equatable {
    /// null.
    case null
    /// true or false.
    case bool(Bool)
    /// The number's text, as written.
    case number(String)
    /// A string, with its escapes decoded.
    case string(String)
    /// A list.
    case array([JSON])
    /// The members, in the order in which they were written.
    case object([Member])

    /// A member of an object.
    public struct Member: Sendable, Equatable {
        /// The member's name.
        public let name: String
        /// The member's value.
        public let value: JSON
        /// A part of the whole document, which all members share: a copy at each level would multiply a nested text.
        let bytes: ArraySlice<UInt8>

        /// The value's text, as written.
        public var raw: String { String(decoding: bytes, as: UTF8.self) }

        fileprivate init(name: String, value: JSON, bytes: ArraySlice<UInt8>) {
            (self.name, self.value, self.bytes) = (name, value, bytes)
        }

        init(name: String, value: JSON, raw: String) {
            self.init(name: name, value: value, bytes: Array(raw.utf8)[...])
        }
    }

    /// How deep arrays and objects may be nested.
    package static let deepest = 64

    /// Why a text is not valid JSON.
    public struct SyntaxError: Error, Sendable, CustomStringConvertible {
        /// A sentence with the position of the error.
        public let description: String
    }

    /// Reads a text that is one JSON value. Refuses an object that has two members of the same name, and values that
    /// are nested deeper than 64 levels.
    public init(_ bytes: some Collection<UInt8>) throws(SyntaxError) {
        var reader = JSONReader(bytes: Array(bytes))
        self = try reader.document()
    }

    /// Reads a text that is one JSON value, as `init` for bytes does.
    public init(_ text: String) throws(SyntaxError) { try self.init(text.utf8) }

    /// The text of a string, nil for all other values.
    public var string: String? { if case .string(let text) = self { text } else { nil } }
    /// The value of `true` or `false`, nil for all other values.
    public var bool: Bool? { if case .bool(let value) = self { value } else { nil } }
    /// The value of a number, nil for all other values.
    public var double: Double? { if case .number(let digits) = self { Double(digits) } else { nil } }
    /// The value of a whole number, nil for all other values. `3.0` and `1e3` are whole.
    public var integer: Int64? {
        guard case .number(let digits) = self else { return nil }
        return Int64(digits) ?? Double(digits).flatMap { Int64(exactly: $0) }
    }
    /// The value of a number that is a time in unix milliseconds, nil for all other values.
    package var timestamp: Int64? { integer.flatMap { JobField.timestamps.contains($0) ? $0 : nil } }
    /// The elements of a list, nil for all other values.
    public var array: [JSON]? { if case .array(let elements) = self { elements } else { nil } }
    /// The members of an object in their order, nil for all other values.
    public var members: [Member]? { if case .object(let members) = self { members } else { nil } }

    /// A member of an object. Names are compared by their bytes: Swift's `==` finds canonically equivalent texts equal.
    public subscript(name: String) -> JSON? {
        members?.first { $0.name.utf8.elementsEqual(name.utf8) }?.value
    }

    /// The number of bytes of a JSON text without the contents of its strings.
    package static func skeletonCount(_ bytes: some Collection<UInt8>) -> Int {
        // Each job passes here, and a loop over a buffer is ten times as fast as a loop over a generic collection.
        bytes.withContiguousStorageIfAvailable(skeletonCount(of:))
            ?? Array(bytes).withUnsafeBufferPointer(skeletonCount(of:))
    }

    private static func skeletonCount(of bytes: UnsafeBufferPointer<UInt8>) -> Int {
        var count = 0
        var isInString = false
        var isEscaped = false
        for byte in bytes {
            if isEscaped {
                isEscaped = false
            } else if isInString, byte == UInt8(ascii: "\\") {
                isEscaped = true
            } else if byte == UInt8(ascii: "\"") {
                isInString.toggle()
                count += 1
            } else if !isInString {
                count += 1
            }
        }
        return count
    }

    /// `text` as a JSON string, with its quotes.
    public static func quoted(_ text: String) -> String {
        var result = ""
        append(quoted: text, to: &result)
        return result
    }

    /// Appends `text` as a JSON string, with its quotes.
    package static func append(quoted text: String, to result: inout String) {
        result += "\""
        // The fast path: most texts have nothing to escape. Bytes from 0x80 on belong to scalars that need no escape.
        let hasEscapes = contains(text) { byte in
            byte < 0x20 || byte == 0x7F || byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\")
        }
        result += hasEscapes ? text.escaped(escape) : text
        result += "\""
    }

    /// Whether a byte of the text fulfils the condition. A loop over a buffer is several times as fast as one over the
    /// text's bytes.
    private static func contains(_ text: String, where condition: (UInt8) -> Bool) -> Bool {
        text.utf8.withContiguousStorageIfAvailable { $0.contains(where: condition) }
            ?? text.utf8.contains(where: condition)
    }

    /// What a scalar becomes in a quoted text; nil if it stays as it is.
    package static func escape(_ scalar: Unicode.Scalar) -> String? {
        switch scalar {
        case "\"": return "\\\""
        case "\\": return "\\\\"
        case "\n": return "\\n"
        case "\r": return "\\r"
        case "\t": return "\\t"
        default: return scalar.value < 0x20 || scalar.value == 0x7F ? scalar.escaped : nil
        }
    }

    /// How many bytes each byte of a UTF-8 text takes in `quoted`.
    package static let quotedLength = (0...UInt8.max).map { byte in
        byte < 0x80 ? escape(Unicode.Scalar(byte))?.utf8.count ?? 1 : 1
    }

    /// A valid JSON text without line breaks, for formats that end a text at its line. In JSON they only occur between
    /// values, where a blank means the same.
    package static func onOneLine(_ text: String) -> String {
        guard contains(text, where: isLineBreak) else { return text }
        return String(decoding: text.utf8.map { isLineBreak($0) ? UInt8(ascii: " ") : $0 }, as: UTF8.self)
    }

    private static func isLineBreak(_ byte: UInt8) -> Bool { byte == UInt8(ascii: "\n") || byte == UInt8(ascii: "\r") }

    /// The value as compact JSON text.
    public var text: String {
        switch self {
        case .null: "null"
        case .bool(let value): value ? "true" : "false"
        case .number(let digits): digits
        case .string(let text): Self.quoted(text)
        case .array(let elements): "[" + elements.map(\.text).joined(separator: ",") + "]"
        case .object(let members):
            members.reduce(into: JSONObject()) { $0.set($1.name, json: $1.raw) }.text
        }
    }
}

/// A recursive descent parser with a limit of depth, so that untrusted text cannot exhaust the stack.
private struct JSONReader {
    let bytes: [UInt8]
    var position = 0
    var depth = 0

    init(bytes: [UInt8]) { self.bytes = bytes }

    mutating func document() throws(JSON.SyntaxError) -> JSON {
        let value = try value()
        skipSpace()
        guard position == bytes.count else { throw error("more text follows the value") }
        return value
    }

    private mutating func value() throws(JSON.SyntaxError) -> JSON {
        skipSpace()
        switch peek() {
        case UInt8(ascii: "{"): return try nested { reader throws(JSON.SyntaxError) in try reader.object() }
        case UInt8(ascii: "["): return try nested { reader throws(JSON.SyntaxError) in try reader.array() }
        case UInt8(ascii: "\""): return .string(try string())
        case UInt8(ascii: "t"): return try word("true", .bool(true))
        case UInt8(ascii: "f"): return try word("false", .bool(false))
        case UInt8(ascii: "n"): return try word("null", .null)
        case .some(UInt8(ascii: "-")), .some(UInt8(ascii: "0")...UInt8(ascii: "9")): return try number()
        case nil: throw error("the text ends where a value should be")
        default: throw error("no value begins like this")
        }
    }

    private mutating func nested(
        _ body: (inout JSONReader) throws(JSON.SyntaxError) -> JSON
    ) throws(JSON.SyntaxError) -> JSON {
        guard depth < JSON.deepest else { throw error("nested deeper than \(JSON.deepest) levels") }
        depth += 1
        defer { depth -= 1 }
        position += 1
        return try body(&self)
    }

    private mutating func object() throws(JSON.SyntaxError) -> JSON {
        var members: [JSON.Member] = []
        var names: Set<[UInt8]> = []
        skipSpace()
        if take("}") { return .object([]) }
        while true {
            skipSpace()
            guard peek() == UInt8(ascii: "\"") else { throw error("a name in double quotes is missing") }
            let name = try string()
            guard names.insert(Array(name.utf8)).inserted else {
                throw error("the name \(name) occurs twice in an object")
            }
            skipSpace()
            guard take(":") else { throw error("a colon should follow the name \(name)") }
            skipSpace()
            let start = position
            let value = try value()
            members.append(JSON.Member(name: name, value: value, bytes: bytes[start..<position]))
            skipSpace()
            if take("}") { return .object(members) }
            guard take(",") else { throw error("a comma or } should follow a member") }
        }
    }

    private mutating func array() throws(JSON.SyntaxError) -> JSON {
        var elements: [JSON] = []
        skipSpace()
        if take("]") { return .array([]) }
        while true {
            elements.append(try value())
            skipSpace()
            if take("]") { return .array(elements) }
            guard take(",") else { throw error("a comma or ] should follow an element") }
        }
    }

    private mutating func string() throws(JSON.SyntaxError) -> String {
        position += 1
        var text: [UInt8] = []
        while let byte = peek() {
            position += 1
            switch byte {
            case UInt8(ascii: "\""):
                guard let result = String(validating: text, as: UTF8.self) else {
                    throw error("a string is not valid UTF-8")
                }
                return result
            case UInt8(ascii: "\\"): try escape(into: &text)
            case 0..<0x20: throw error("a string contains a control character")
            default: text.append(byte)
            }
        }
        throw error("a string does not end")
    }

    private mutating func escape(into text: inout [UInt8]) throws(JSON.SyntaxError) {
        guard let byte = peek() else { throw error("a string does not end") }
        position += 1
        switch byte {
        case UInt8(ascii: "n"): text.append(10)
        case UInt8(ascii: "t"): text.append(9)
        case UInt8(ascii: "r"): text.append(13)
        case UInt8(ascii: "b"): text.append(8)
        case UInt8(ascii: "f"): text.append(12)
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): text.append(byte)
        case UInt8(ascii: "u"):
            var code = try hexadecimal()
            if (0xD800..<0xDC00).contains(code), take("\\"), take("u") {
                let low = try hexadecimal()
                guard (0xDC00..<0xE000).contains(low) else { throw error("half a surrogate pair") }
                code = 0x10000 + (code - 0xD800) << 10 + (low - 0xDC00)
            }
            guard let scalar = Unicode.Scalar(code) else { throw error("half a surrogate pair") }
            text.append(contentsOf: UTF8.encode(scalar)!)
        default: throw error("a string contains an unknown escape")
        }
    }

    private mutating func hexadecimal() throws(JSON.SyntaxError) -> UInt32 {
        let digits = bytes[position..<min(position + 4, bytes.count)]
        guard digits.count == 4, digits.allSatisfy({ UInt8(ascii: "0")...UInt8(ascii: "f") ~= $0 }),
            let code = UInt32(String(decoding: digits, as: UTF8.self), radix: 16)
        else { throw error("\\u requires four hexadecimal digits") }
        position += 4
        return code
    }

    private mutating func number() throws(JSON.SyntaxError) -> JSON {
        let start = position
        _ = take("-")
        let digits = skipDigits()
        guard digits > 0, digits == 1 || bytes[position - digits] != UInt8(ascii: "0") else { throw error("no number") }
        if take("."), skipDigits() == 0 { throw error("no number") }
        if take("e") || take("E") {
            if !take("+") { _ = take("-") }
            if skipDigits() == 0 { throw error("no number") }
        }
        return .number(String(decoding: bytes[start..<position], as: UTF8.self))
    }

    private mutating func skipDigits() -> Int {
        let start = position
        while let byte = peek(), UInt8(ascii: "0")...UInt8(ascii: "9") ~= byte { position += 1 }
        return position - start
    }

    private mutating func word(_ text: String, _ value: JSON) throws(JSON.SyntaxError) -> JSON {
        guard bytes[position...].starts(with: text.utf8) else { throw error("no value begins like this") }
        position += text.utf8.count
        return value
    }

    private mutating func skipSpace() {
        while let byte = peek(), byte == 32 || byte == 10 || byte == 13 || byte == 9 { position += 1 }
    }

    private func peek() -> UInt8? { position < bytes.count ? bytes[position] : nil }

    private mutating func take(_ character: Unicode.Scalar) -> Bool {
        guard peek() == UInt8(ascii: character) else { return false }
        position += 1
        return true
    }

    private func error(_ message: String) -> JSON.SyntaxError {
        JSON.SyntaxError(description: "\(message) (at byte \(position))")
    }
}
