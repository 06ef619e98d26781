import HaulContract

/// A short mark that stands for a part's ETag: nine bytes of its MD5, in twelve base64url characters. ETags differ in
/// kind and length between servers. The mark is always short, and changes with the ETag.
struct PartMark: Sendable, Hashable, CustomStringConvertible {
    static let length = 12

    let description: String

    init(etag: String) {
        let digest = Digest.md5(etag.utf8).prefix(9)
        description = Base64.encode(digest).replacing("+", with: "-").replacing("/", with: "_")
    }

    /// Reads a mark from a store state; nil if `text` is not a mark.
    init?(_ text: some StringProtocol) {
        let isMark = { (byte: UInt8) in
            switch byte {
            case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"):
                true
            default: false
            }
        }
        guard text.utf8.count == Self.length, text.utf8.allSatisfy(isMark) else { return nil }
        description = String(text)
    }
}
