import Glibc

/// A few bytes that are looked for in very many texts.
///
/// One of them, which has one case only, is looked for first: libc finds it many times faster than a loop that looks at
/// each byte in both cases.
package struct Needle: Sendable {
    /// In lower case, if case is ignored.
    private let bytes: [UInt8]
    private let ignoresCase: Bool
    /// Where that one is; nil if there is none.
    private let anchor: Int?

    /// - Parameter ignoresCase: Whether letters of ASCII match in either case.
    package init(_ text: String, ignoresCase: Bool = false) {
        bytes = text.utf8.map { ignoresCase ? Self.lowered($0) : $0 }
        self.ignoresCase = ignoresCase
        // In a URL any digit but these is seldomer than what stands between its parts.
        let often = Set("/:.?=&-_01\"".utf8)
        let candidates = bytes.indices.filter { [bytes] in !ignoresCase || !(97...122 ~= bytes[$0]) }
        anchor = candidates.last { [bytes] in !often.contains(bytes[$0]) } ?? candidates.last
    }

    /// Whether `text` has these bytes; every text has none of them.
    package func isIn(_ text: [UInt8]) -> Bool {
        guard text.count >= bytes.count else { return false }
        return text.withUnsafeBytes { text in bytes.withUnsafeBytes { isIn(text, $0) } }
    }

    private func isIn(_ text: UnsafeRawBufferPointer, _ bytes: UnsafeRawBufferPointer) -> Bool {
        guard let start = text.baseAddress, !bytes.isEmpty else { return bytes.isEmpty }
        let places = text.count - bytes.count + 1
        guard let anchor else { return (0..<places).contains { isAt($0, of: text, bytes) } }
        var place = 0
        while place < places, let found = memchr(start + place + anchor, Int32(bytes[anchor]), places - place) {
            place = UnsafeRawPointer(found) - start - anchor
            if isAt(place, of: text, bytes) { return true }
            place += 1
        }
        return false
    }

    private func isAt(_ place: Int, of text: UnsafeRawBufferPointer, _ bytes: UnsafeRawBufferPointer) -> Bool {
        for offset in bytes.indices {
            let byte = text[place + offset]
            guard (ignoresCase ? Self.lowered(byte) : byte) == bytes[offset] else { return false }
        }
        return true
    }

    private static func lowered(_ byte: UInt8) -> UInt8 { 65...90 ~= byte ? byte | 32 : byte }
}
