import CHaulOpenSSL

/// Digests of bytes that are in memory.
enum Digest {
    static func sha256(_ bytes: some Collection<UInt8>) -> [UInt8] { digest(bytes, EVP_sha256(), 32) }

    static func md5(_ bytes: some Collection<UInt8>) -> [UInt8] { digest(bytes, EVP_md5(), 16) }

    /// HMAC-SHA256 (RFC 2104).
    static func hmac(_ key: [UInt8], _ text: String) -> [UInt8] {
        var (result, length) = ([UInt8](repeating: 0, count: 32), 0)
        let bytes = Array(text.utf8)
        EVP_Q_mac(nil, "HMAC", nil, "SHA256", nil, key, key.count, bytes, bytes.count, &result, 32, &length)
        return result
    }

    private static func digest(_ bytes: some Collection<UInt8>, _ method: OpaquePointer?, _ size: Int) -> [UInt8] {
        var result = [UInt8](repeating: 0, count: size)
        let isDone = bytes.withContiguousStorageIfAvailable {
            EVP_Digest($0.baseAddress, $0.count, &result, nil, method, nil)
        }
        guard isDone == nil else { return result }
        return digest(Array(bytes), method, size)
    }
}
