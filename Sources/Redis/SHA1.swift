import CHaulOpenSSL

/// SHA-1, for names that follow from a text: versions of a Lua library, job ids, partial files. Not for security.
package enum SHA1 {
    /// 40 lower-case hexadecimal digits.
    package static func hex(_ text: String) -> String { hex(Array(text.utf8)) }

    package static func hex(_ bytes: [UInt8]) -> String {
        var digest = [UInt8](repeating: 0, count: 20)
        EVP_Digest(bytes, bytes.count, &digest, nil, EVP_sha1(), nil)
        return String(unsafeUninitializedCapacity: 40) { text in
            for (index, byte) in digest.enumerated() {
                for (half, nibble) in [byte >> 4, byte & 15].enumerated() {
                    text[2 * index + half] = nibble < 10 ? 48 + nibble : 87 + nibble
                }
            }
            return 40
        }
    }
}
