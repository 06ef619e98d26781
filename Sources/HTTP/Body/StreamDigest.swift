import CHaulOpenSSL
import Glibc
package import HaulContract

/// A digest of bytes in the order in which they arrive. One thread at a time may use it.
package final class StreamDigest: @unchecked Sendable {
    private let algorithm: Job.Checksum.Algorithm
    private let context: OpaquePointer

    package init(_ algorithm: Job.Checksum.Algorithm) {
        self.algorithm = algorithm
        context = EVP_MD_CTX_new()
        EVP_DigestInit_ex(context, algorithm.method, nil)
    }

    deinit { EVP_MD_CTX_free(context) }

    package func update(_ bytes: some Collection<UInt8>) {
        _ =
            bytes.withContiguousStorageIfAvailable { EVP_DigestUpdate(context, $0.baseAddress, $0.count) }
            ?? { EVP_DigestUpdate(context, $0, $0.count) }(Array(bytes))
    }

    /// The digest in lower-case hexadecimal digits. Nothing may be added afterwards.
    package func hexadecimal() -> String { Hexadecimal.text(bytes()) }

    /// The digest. Nothing may be added afterwards.
    package func bytes() -> [UInt8] {
        var digest = [UInt8](repeating: 0, count: algorithm.hexadecimalDigits / 2)
        EVP_DigestFinal_ex(context, &digest, nil)
        return digest
    }

    /// The digest of a file on this machine; nil if it cannot be read. Blocks until the whole file is read.
    package static func hexadecimal(of path: String, _ algorithm: Job.Checksum.Algorithm) -> String? {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        let digest = StreamDigest(algorithm)
        var bytes = [UInt8](repeating: 0, count: 1 << 20)
        while true {
            let count = read(descriptor, &bytes, bytes.count)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { return nil }
            if count == 0 { return digest.hexadecimal() }
            digest.update(bytes[..<count])
        }
    }
}

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
