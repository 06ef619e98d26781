/// A key of a terminal.
enum Key: Equatable, Sendable {
    case character(Character)
    case up, down, left, right, pageUp, pageDown, home, end, enter, escape, backspace, tab, backTab
    /// Held with control: `control("c")`.
    case control(Character)
}

/// Reads keys from the bytes that a terminal sends. It is a value, so that tests need no terminal.
struct KeyDecoder {
    private var pending: [UInt8] = []

    /// Whether bytes are left that are not yet a key: an ESC may be the escape key, or begin the sequence of another
    /// key.
    var isWaiting: Bool { !pending.isEmpty }

    /// Adds bytes, and returns the keys that are complete with them.
    mutating func feed(_ bytes: some Sequence<UInt8>) -> [Key] {
        pending += bytes
        var keys: [Key] = []
        while let (key, length) = Self.first(pending) {
            pending.removeFirst(length)
            if let key { keys.append(key) }
        }
        return keys
    }

    /// Call it if no more bytes have arrived for a while: a lone ESC is then the escape key.
    mutating func flush() -> [Key] {
        defer { pending = [] }
        return pending == [27] ? [.escape] : []
    }

    /// The first key and its number of bytes. The key is nil if the bytes are not a key. The result is nil if more bytes
    /// are needed.
    private static func first(_ bytes: [UInt8]) -> (Key?, Int)? {
        guard let byte = bytes.first else { return nil }
        switch byte {
        case 27: return escape(bytes)
        case 13, 10: return (.enter, 1)
        case 9: return (.tab, 1)
        case 8, 127: return (.backspace, 1)
        case 1...26: return (.control(Character(Unicode.Scalar(byte + 96))), 1)
        case 0..<32: return (nil, 1)
        default: return character(bytes)
        }
    }

    /// A character in UTF-8.
    private static func character(_ bytes: [UInt8]) -> (Key?, Int)? {
        let length = bytes[0] < 0x80 ? 1 : bytes[0] >= 0xF0 ? 4 : bytes[0] >= 0xE0 ? 3 : 2
        guard bytes.count >= length else { return nil }
        guard let text = String(validating: bytes[..<length], as: UTF8.self), let character = text.first else {
            return (nil, 1)
        }
        return (.character(character), length)
    }

    /// `ESC [ …` and `ESC O …` (ECMA-48, xterm). Any other ESC is the escape key.
    private static func escape(_ bytes: [UInt8]) -> (Key?, Int)? {
        guard bytes.count > 1 else { return nil }
        guard bytes[1] == UInt8(ascii: "[") || bytes[1] == UInt8(ascii: "O") else { return (.escape, 1) }
        guard let end = bytes.dropFirst(2).firstIndex(where: { (0x40...0x7E).contains($0) }) else {
            // No key has a longer sequence.
            return bytes.count > 16 ? (nil, bytes.count) : nil
        }
        let parameter = String(decoding: bytes[2..<end], as: UTF8.self).prefix { $0 != ";" }
        return (named(bytes[end], String(parameter)), end + 1)
    }

    private static func named(_ final: UInt8, _ parameter: String) -> Key? {
        switch Character(Unicode.Scalar(final)) {
        case "A": return .up
        case "B": return .down
        case "C": return .right
        case "D": return .left
        case "H": return .home
        case "F": return .end
        case "Z": return .backTab
        case "M": return .enter
        case "~":
            let keys: [String: Key] = [
                "1": .home, "7": .home, "4": .end, "8": .end, "5": .pageUp, "6": .pageDown,
            ]
            return keys[parameter]
        default: return nil
        }
    }
}
