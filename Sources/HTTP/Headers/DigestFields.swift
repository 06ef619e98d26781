package import HaulContract

/// The digest of the whole representation, from Repr-Digest and Content-Digest (RFC 9530) or the older Content-MD5. All
/// of them cover the bytes with their Content-Encoding, which are the bytes that are saved.
package enum DigestFields {
    /// The digest that the whole file must have; nil if the response has no known one.
    ///
    /// The content of a 206 is only a part of the file, so of a 206 only Repr-Digest is used.
    package static func checksum(_ head: ResponseHead) -> Job.Checksum? {
        if let digest = strongest(head.headers.all("repr-digest")) { return digest }
        guard head.status == 200 else { return nil }
        return strongest(head.headers.all("content-digest")) ?? md5(head.headers.all("content-md5"))
    }

    private static func strongest(_ lines: [String]) -> Job.Checksum? {
        guard !lines.isEmpty, let members = ByteDictionary(lines.joined(separator: ", "))?.members else { return nil }
        return checksum(.sha512, members["sha-512"]) ?? checksum(.sha256, members["sha-256"])
    }

    private static func md5(_ lines: [String]) -> Job.Checksum? {
        lines.count == 1 ? checksum(.md5, Base64.decode(lines[0].utf8)) : nil
    }

    private static func checksum(_ algorithm: Job.Checksum.Algorithm, _ bytes: [UInt8]?) -> Job.Checksum? {
        guard let bytes, bytes.count * 2 == algorithm.hexadecimalDigits else { return nil }
        return Job.Checksum(algorithm: algorithm, digest: Hexadecimal.text(bytes))
    }
}
