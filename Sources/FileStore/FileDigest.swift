import CHaulOpenSSL
import Glibc
package import HaulContract
import HaulHTTP

/// The digest of a file that is there, whoever made it.
package enum FileDigest {
    /// Lower-case hexadecimal digits; nil if the file cannot be read. Blocks for as long as reading takes.
    package static func hexadecimal(of path: String, _ algorithm: Job.Checksum.Algorithm) -> String? {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0, let context = EVP_MD_CTX_new() else { return nil }
        defer {
            close(descriptor)
            EVP_MD_CTX_free(context)
        }
        EVP_DigestInit_ex(context, algorithm.method, nil)
        var bytes = [UInt8](repeating: 0, count: 1 << 20)
        while true {
            let count = read(descriptor, &bytes, bytes.count)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { return nil }
            if count == 0 { break }
            EVP_DigestUpdate(context, bytes, count)
        }
        var digest = [UInt8](repeating: 0, count: algorithm.hexadecimalDigits / 2)
        EVP_DigestFinal_ex(context, &digest, nil)
        return digest.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
    }
}
