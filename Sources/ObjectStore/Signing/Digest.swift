import CHaulOpenSSL

/// Digests of bytes that are in memory.
enum Digest {
    static func sha256(_ bytes: some Collection<UInt8>) -> [UInt8] { digest(bytes, EVP_sha256(), 32) }

    static func md5(_ bytes: some Collection<UInt8>) -> [UInt8] { digest(bytes, EVP_md5(), 16) }

    static func md5(_ bytes: UnsafeRawBufferPointer) -> [UInt8] {
        var result = [UInt8](repeating: 0, count: 16)
        EVP_Digest(bytes.baseAddress, bytes.count, &result, nil, EVP_md5(), nil)
        return result
    }

    /// HMAC-SHA256 (RFC 2104).
    static func hmac(_ key: [UInt8], _ text: String) -> [UInt8] {
        var (result, length) = ([UInt8](repeating: 0, count: 32), 0)
        let bytes = Array(text.utf8)
        EVP_Q_mac(nil, "HMAC", nil, "SHA256", nil, key, key.count, bytes, bytes.count, &result, 32, &length)
        return result
    }

    private static func digest(_ bytes: some Collection<UInt8>, _ method: OpaquePointer?, _ size: Int) -> [UInt8] {
        var result = [UInt8](repeating: 0, count: size)
        let bytes = Array(bytes)
        EVP_Digest(bytes, bytes.count, &result, nil, method, nil)
        return result
    }
}

/// A digest of bytes that come in order, piece by piece. Only one thread at a time may use it.
final class RunningHash: @unchecked Sendable {
    private let context: OpaquePointer
    private let size: Int

    /// - Parameters:
    ///   - method: OpenSSL's algorithm (`EVP_MD`).
    ///   - size: Bytes of the digest.
    init(_ method: OpaquePointer?, size: Int) {
        context = EVP_MD_CTX_new()
        self.size = size
        EVP_DigestInit_ex(context, method, nil)
    }

    deinit { EVP_MD_CTX_free(context) }

    func update(_ bytes: UnsafeRawBufferPointer) { EVP_DigestUpdate(context, bytes.baseAddress, bytes.count) }

    /// The digest. May be called once, after the last bytes.
    func result() -> [UInt8] {
        var result = [UInt8](repeating: 0, count: size)
        EVP_DigestFinal_ex(context, &result, nil)
        return result
    }
}

extension Collection<UInt8> {
    /// Lower-case hexadecimal digits.
    var hexadecimal: String { map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined() }

    /// Base64 with padding (RFC 4648 section 4).
    var base64: String {
        var result: [UInt8] = []
        let bytes = Array(self)
        for start in stride(from: 0, to: bytes.count, by: 3) {
            let group = bytes[start..<Swift.min(start + 3, bytes.count)]
            let bits = group.reduce(UInt32(0)) { $0 << 8 | UInt32($1) } << UInt32(8 * (3 - group.count))
            for index in 0..<4 {
                let isThere = index <= group.count
                result.append(isThere ? base64Digits[Int(bits >> UInt32(18 - 6 * index) & 63)] : UInt8(ascii: "="))
            }
        }
        return String(decoding: result, as: UTF8.self)
    }
}

private let base64Digits = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)
