import Glibc

/// A short text to be searched for in very many texts.
///
/// The search finds one byte of the needle first, the anchor, with memchr. This is many times faster than a loop
/// that compares each byte in both cases. The anchor must be the same in both cases.
package struct Needle: Sendable {
    /// The needle, in lower case if case is ignored.
    private let bytes: [UInt8]
    private let ignoresCase: Bool
    /// The offset of the anchor in `bytes`. nil if no byte can be the anchor.
    private let anchor: Int?

    /// - Parameter ignoresCase: Whether ASCII letters match in either case.
    package init(_ text: String, ignoresCase: Bool = false) {
        bytes = text.utf8.map { ignoresCase ? Self.lowered($0) : $0 }
        self.ignoresCase = ignoresCase
        // Prefer an anchor that is rare in URLs and JSON: neither punctuation nor one of the most frequent digits.
        let often = Set("/:.?=&-_01\"".utf8)
        let candidates = bytes.indices.filter { [bytes] in !ignoresCase || !(97...122 ~= bytes[$0]) }
        anchor = candidates.last { [bytes] in !often.contains(bytes[$0]) } ?? candidates.last
    }

    /// Whether `text` contains the needle. Each text contains an empty needle.
    package func isIn(_ text: [UInt8]) -> Bool {
        guard text.count >= bytes.count else { return false }
        return text.withUnsafeBytes { text in bytes.withUnsafeBytes { isIn(text, $0) } }
    }

    private func isIn(_ text: UnsafeRawBufferPointer, _ bytes: UnsafeRawBufferPointer) -> Bool {
        guard let start = text.baseAddress, !bytes.isEmpty else { return bytes.isEmpty }
        let positions = text.count - bytes.count + 1
        guard let anchor else { return (0..<positions).contains { isAt($0, of: text, bytes) } }
        var position = 0
        while position < positions,
            let found = memchr(start + position + anchor, Int32(bytes[anchor]), positions - position)
        {
            position = UnsafeRawPointer(found) - start - anchor
            if isAt(position, of: text, bytes) { return true }
            position += 1
        }
        return false
    }

    private func isAt(_ position: Int, of text: UnsafeRawBufferPointer, _ bytes: UnsafeRawBufferPointer) -> Bool {
        for offset in bytes.indices {
            let byte = text[position + offset]
            guard (ignoresCase ? Self.lowered(byte) : byte) == bytes[offset] else { return false }
        }
        return true
    }

    private static func lowered(_ byte: UInt8) -> UInt8 { 65...90 ~= byte ? byte | 32 : byte }
}
