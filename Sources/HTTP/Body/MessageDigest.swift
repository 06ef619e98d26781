import CHaulOpenSSL
package import HaulContract

extension Job.Checksum.Algorithm {
    /// OpenSSL's implementation of the algorithm.
    package var method: OpaquePointer? {
        switch self {
        case .sha256: EVP_sha256()
        case .sha512: EVP_sha512()
        case .sha1: EVP_sha1()
        case .md5: EVP_md5()
        }
    }

    /// The digest of a text, in lower-case hexadecimal digits.
    package func hexadecimal(of text: String) -> String {
        var digest = [UInt8](repeating: 0, count: hexadecimalDigits / 2)
        let bytes = Array(text.utf8)
        EVP_Digest(bytes, bytes.count, &digest, nil, method, nil)
        return Hexadecimal.text(digest)
    }
}
