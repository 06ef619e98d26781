/// Base 64 with padding (RFC 4648 section 4).
package enum Base64 {
    private static let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)
    private static let padding = UInt8(ascii: "=")

    package static func encode(_ bytes: some Collection<UInt8>) -> String {
        var text: [UInt8] = []
        text.reserveCapacity((bytes.count + 2) / 3 * 4)
        var (bits, count): (UInt32, Int) = (0, 0)
        func write(_ digits: Int) {
            for digit in 0..<4 {
                text.append(digit < digits ? alphabet[Int(bits >> (18 - 6 * UInt32(digit)) & 63)] : padding)
            }
        }
        for byte in bytes {
            bits |= UInt32(byte) << (16 - 8 * UInt32(count))
            count += 1
            if count == 3 {
                write(4)
                (bits, count) = (0, 0)
            }
        }
        if count > 0 { write(count + 1) }
        return String(decoding: text, as: UTF8.self)
    }

    /// Strict: nil for other characters, a wrong length, or bits under the padding that are not zero.
    package static func decode(_ text: some Collection<UInt8>) -> [UInt8]? {
        guard text.count % 4 == 0 else { return nil }
        let digits = text.reversed().drop { $0 == padding }.reversed()
        let padded = text.count - digits.count
        guard padded <= 2 else { return nil }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(text.count / 4 * 3)
        var (bits, count): (UInt32, Int) = (0, 0)
        for digit in digits {
            guard let value = value(of: digit) else { return nil }
            bits = bits << 6 | value
            count += 6
            if count >= 8 {
                count -= 8
                bytes.append(UInt8(truncatingIfNeeded: bits >> UInt32(count)))
                bits &= (1 << UInt32(count)) - 1
            }
        }
        // The bits that the padding leaves unused must be zero (RFC 4648 section 3.5).
        return bits == 0 && padded == (count == 0 ? 0 : count / 2) ? bytes : nil
    }

    private static func value(of digit: UInt8) -> UInt32? {
        switch digit {
        case 65...90: UInt32(digit - 65)
        case 97...122: UInt32(digit - 71)
        case 48...57: UInt32(digit + 4)
        case UInt8(ascii: "+"): 62
        case UInt8(ascii: "/"): 63
        default: nil
        }
    }
}
