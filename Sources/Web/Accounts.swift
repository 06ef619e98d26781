import CHaulOpenSSL
import HaulExecutors
import Synchronization

/// What somebody may do.
package enum Role: String, Sendable, CaseIterable {
    /// Sees jobs without their secrets, and changes nothing.
    case viewer
    case `operator`
}

/// Who asks.
package struct Visitor: Sendable, Equatable {
    /// nil where nobody signs in.
    package let name: String?
    package let role: Role
}

/// The users and bearer tokens of a file: on each line a name, a role, and a hash. `#` begins a comment.
///
///     alice operator scrypt$15$8$1$…
///     grafana viewer sha256:…
package final class Accounts: Sendable {
    package struct Invalid: Error, CustomStringConvertible { package let description: String }

    enum Outcome: Equatable {
        case visitor(Visitor)
        /// Nobody signed in.
        case none
        case wrong
        /// Too many passwords wait to be checked.
        case busy
    }

    private let users: [String: (role: Role, hash: PasswordHash)]
    /// By the hash of the token.
    private let tokens: [[UInt8]: Visitor]
    /// A password costs a tenth of a second: few are checked at once, and few wait.
    private let pool = BlockingPool(name: "login", limit: 2)
    private let checks = Mutex(0)
    private static let mostChecks = 16
    /// Passwords that were right lately, by a hash that only this process can make.
    private let known = Mutex<[[UInt8]: (visitor: Visitor, end: ContinuousClock.Instant)]>([:])
    private let secret = Random.bytes(32)
    /// What a name that nobody has is checked against, so that it takes as long.
    private let nobody: PasswordHash

    package init(_ text: String) throws(Invalid) {
        var users: [String: (role: Role, hash: PasswordHash)] = [:]
        var tokens: [[UInt8]: Visitor] = [:]
        for (index, line) in text.split(separator: "\n", omittingEmptySubsequences: false).enumerated() {
            let words = line.split { $0 == " " || $0 == "\t" || $0 == "\r" }.map(String.init)
            guard let name = words.first, !name.hasPrefix("#") else { continue }
            let place = "line \(index + 1)"
            guard words.count == 3 else { throw Invalid(description: "\(place) wants a name, a role and a hash") }
            guard let role = Role(rawValue: words[1]) else {
                throw Invalid(description: "\(place): \"\(words[1])\" is no role: viewer or operator")
            }
            guard !name.contains(":") else { throw Invalid(description: "\(place): a name has no colon") }
            if words[2].hasPrefix("sha256:") {
                guard let hash = Hexadecimal.bytes(String(words[2].dropFirst(7))), hash.count == 32 else {
                    throw Invalid(description: "\(place): sha256: wants 64 hexadecimal digits")
                }
                tokens[hash] = Visitor(name: name, role: role)
            } else {
                guard let hash = PasswordHash(words[2]) else {
                    throw Invalid(description: "\(place): the hash is none that haul web hash-password made")
                }
                guard users.updateValue((role, hash), forKey: name) == nil else {
                    throw Invalid(description: "\(place): the user \(name) stands there twice")
                }
            }
        }
        guard !users.isEmpty || !tokens.isEmpty else { throw Invalid(description: "it names nobody") }
        (self.users, self.tokens) = (users, tokens)
        nobody = users.values.first?.hash ?? PasswordHash(password: "", cost: 4)
    }

    /// The line of a new bearer token's hash, without name and role.
    package static func hash(token: String) -> String { "sha256:" + Hexadecimal.text(SHA256.digest(Array(token.utf8))) }

    /// Who signs in with this Authorization header.
    func visitor(_ authorization: String?) async -> Outcome {
        guard let authorization else { return .none }
        let words = authorization.split(separator: " ", maxSplits: 1).map(String.init)
        guard words.count == 2 else { return .wrong }
        switch words[0].lowercased() {
        case "bearer": return tokens[SHA256.digest(Array(words[1].utf8))].map { .visitor($0) } ?? .wrong
        case "basic": return await user(words[1])
        default: return .wrong
        }
    }

    private func user(_ credentials: String) async -> Outcome {
        let digest = SHA256.digest(secret + Array(credentials.utf8))
        if let visitor = remembered(digest) { return .visitor(visitor) }
        guard let text = Base64.text(credentials), let colon = text.utf8.firstIndex(of: UInt8(ascii: ":")) else {
            return .wrong
        }
        let (name, password) = (String(text[..<colon]), String(text[text.utf8.index(after: colon)...]))
        let hasPlace = checks.withLock { count in
            guard count < Self.mostChecks else { return false }
            count += 1
            return true
        }
        guard hasPlace else { return .busy }
        defer { checks.withLock { $0 -= 1 } }
        let user = users[name]
        let hash = user?.hash ?? nobody
        let isRight = await pool.run { hash.matches(password) }
        guard isRight, let user else { return .wrong }
        let visitor = Visitor(name: name, role: user.role)
        known.withLock {
            if $0.count >= 256 { $0.removeAll() }
            $0[digest] = (visitor, .now + .seconds(600))
        }
        return .visitor(visitor)
    }

    private func remembered(_ digest: [UInt8]) -> Visitor? {
        known.withLock { known in
            guard let (visitor, end) = known[digest] else { return nil }
            if end > .now { return visitor }
            known[digest] = nil
            return nil
        }
    }
}

private enum Base64 {
    /// The text that `encoded` stands for (RFC 4648); nil if it is none.
    static func text(_ encoded: String) -> String? {
        let input = Array(encoded.utf8)
        guard !input.isEmpty, input.count % 4 == 0 else { return nil }
        var output = [UInt8](repeating: 0, count: input.count / 4 * 3)
        let count = EVP_DecodeBlock(&output, input, Int32(input.count))
        guard count >= 0 else { return nil }
        let padding = input.suffix(2).count { $0 == UInt8(ascii: "=") }
        return String(validating: output.prefix(Int(count) - padding), as: UTF8.self)
    }
}
