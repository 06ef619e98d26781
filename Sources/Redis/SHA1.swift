import COpenSSL

/// SHA-1, which tells versions of a library apart.
package enum SHA1 {
    /// 40 lower-case hexadecimal digits.
    package static func hex(_ text: String) -> String {
        var digest = [UInt8](repeating: 0, count: 20)
        var bytes = Array(text.utf8)
        EVP_Digest(&bytes, bytes.count, &digest, nil, EVP_sha1(), nil)
        return digest.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
    }
}
