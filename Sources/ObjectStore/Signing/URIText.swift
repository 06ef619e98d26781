/// Texts in the URIs of S3: what is signed must be what is sent, to the byte.
enum URIText {
    /// All but the unreserved characters of RFC 3986 section 2.3 are percent-encoded, in upper case.
    static func encode(_ text: String, keeping kept: Set<UInt8> = []) -> String {
        var result: [UInt8] = []
        for byte in text.utf8 {
            if isUnreserved(byte) || kept.contains(byte) {
                result.append(byte)
            } else {
                result += [UInt8(ascii: "%"), digits[Int(byte >> 4)], digits[Int(byte & 15)]]
            }
        }
        return String(decoding: result, as: UTF8.self)
    }

    /// A path: its slashes stay.
    static func path(_ text: String) -> String { encode(text, keeping: [UInt8(ascii: "/")]) }

    /// In the order in which it is signed.
    static func query(_ items: [(String, String)]) -> String {
        items.map { (encode($0), encode($1)) }.sorted { $0 < $1 }.map { "\($0)=\($1)" }.joined(separator: "&")
    }

    private static func isUnreserved(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"),
            UInt8(ascii: "~"):
            true
        default: false
        }
    }

    private static let digits = Array("0123456789ABCDEF".utf8)
}
