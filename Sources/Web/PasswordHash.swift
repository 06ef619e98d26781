import CHaulOpenSSL
import HaulContract
import HaulExecutors

/// A password as it is stored: scrypt (RFC 7914) of OpenSSL. Each hash has its own salt and costs, so that new hashes
/// can cost more.
package struct PasswordHash: Sendable, Equatable {
    /// The binary logarithm of N. With 17, a guess costs 128 MiB and about a third of a second.
    private let cost: UInt64
    /// The parameters r and p of RFC 7914.
    private let blockSize: UInt64
    private let lanes: UInt64
    private let salt: [UInt8]
    private let key: [UInt8]

    private static let prefix = "scrypt"
    private static let maxMemory: UInt64 = 256 << 20

    /// Hashes a new password with a random salt. With the default cost this takes about a third of a second.
    package init(password: String, cost: UInt64 = 17) {
        (self.cost, blockSize, lanes) = (cost, 8, 1)
        salt = Random.bytes(16)
        key = Self.derive(password, cost, 8, 1, salt, count: 32) ?? []
    }

    /// Reads a hash in the format of `text`; nil if it has another format, or if its costs are out of bounds.
    package init?(_ text: String) {
        let parts = text.split(separator: "$", omittingEmptySubsequences: false).map(String.init)
        guard parts.count == 6, parts[0] == Self.prefix, let cost = UInt64(parts[1]), (4...20).contains(cost),
            let blockSize = UInt64(parts[2]), (1...32).contains(blockSize), let lanes = UInt64(parts[3]),
            (1...4).contains(lanes), let salt = Hexadecimal.bytes(parts[4]), salt.count >= 8,
            let key = Hexadecimal.bytes(parts[5]), (16...64).contains(key.count),
            128 * blockSize << cost <= Self.maxMemory / 2
        else { return nil }
        (self.cost, self.blockSize, self.lanes, self.salt, self.key) = (cost, blockSize, lanes, salt, key)
    }

    /// The hash as the accounts file has it: `scrypt$cost$blockSize$lanes$salt$key`. Salt and key are hexadecimal.
    package var text: String {
        "\(Self.prefix)$\(cost)$\(blockSize)$\(lanes)$\(Hexadecimal.text(salt))$\(Hexadecimal.text(key))"
    }

    /// The bytes of memory that a check takes.
    var memory: UInt64 { 128 * blockSize << cost }

    /// What is wrong with a new password; nil if it may be used.
    package static func problem(of password: String) -> String? {
        if password.utf8.contains(0) { return "a password must not contain the character NUL" }
        let length = password.unicodeScalars.count
        return length >= minLength
            ? nil : "a password must have at least \(minLength) characters, and this one has \(length)"
    }

    private static let minLength = 12

    /// Whether this is the password. Takes as long as hashing, so it must not run on Swift's cooperative threads.
    package func matches(_ password: String) -> Bool {
        // scrypt takes a password with NULs at its end for the same password without them (HMAC pads its key with
        // zeros).
        guard !password.utf8.contains(0) else { return false }
        let other = Self.derive(password, cost, blockSize, lanes, salt, count: key.count)
        return other.map { ConstantTime.areEqual($0, key) } ?? false
    }

    private static func derive(
        _ password: String, _ cost: UInt64, _ blockSize: UInt64, _ lanes: UInt64, _ salt: [UInt8], count: Int
    ) -> [UInt8]? {
        var key = [UInt8](repeating: 0, count: count)
        let bytes = Array(password.utf8).map { CChar(bitPattern: $0) }
        let status = EVP_PBE_scrypt(
            bytes, bytes.count, salt, salt.count, 1 << cost, blockSize, lanes, maxMemory, &key, count)
        return status == 1 ? key : nil
    }
}

enum ConstantTime {
    /// Compares two arrays. The time that this takes does not depend on where they differ.
    static func areEqual(_ one: [UInt8], _ other: [UInt8]) -> Bool {
        one.count == other.count && zip(one, other).reduce(0) { $0 | ($1.0 ^ $1.1) } == 0
    }
}

package enum Random {
    package static func bytes(_ count: Int) -> [UInt8] {
        var generator = SystemRandomNumberGenerator()
        return (0..<count).map { _ in UInt8.random(in: 0...255, using: &generator) }
    }
}

enum SHA256 {
    static func digest(_ bytes: [UInt8]) -> [UInt8] {
        var digest = [UInt8](repeating: 0, count: 32)
        EVP_Digest(bytes, bytes.count, &digest, nil, EVP_sha256(), nil)
        return digest
    }
}
