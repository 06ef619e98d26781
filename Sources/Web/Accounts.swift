import CHaulOpenSSL
import HaulContract
import HaulExecutors
import Synchronization

/// What a visitor may do.
package enum Role: String, Sendable, CaseIterable {
    /// Sees jobs without their secrets, and changes nothing.
    case viewer
    case `operator`
}

/// The person or program that sends a request.
package struct Visitor: Sendable, Equatable {
    /// nil if there are no accounts, so that nobody signs in.
    package let name: String?
    package let role: Role
}

/// The users and bearer tokens of a file: on each line a name, a role and a hash. A line with `#` first is a comment.
///
///     alice operator scrypt$15$8$1$…
///     grafana viewer sha256:…
package final class Accounts: Sendable {
    package struct Invalid: Error, CustomStringConvertible { package let description: String }

    enum Outcome: Equatable {
        case visitor(Visitor)
        /// The request has no credentials.
        case none
        case wrong
        /// Too many passwords wait to be checked.
        case busy
    }

    private let users: [String: (role: Role, hash: PasswordHash)]
    /// Visitors by the SHA-256 of their token.
    private let tokens: [[UInt8]: Visitor]
    /// Checks passwords. Each check takes a tenth of a second, so few run at once, and few may wait.
    private let pool = BlockingPool(name: "login", limit: 2)
    private let checks = Mutex(0)
    private static let mostChecks = 16
    /// Credentials that were right in the last ten minutes, by a hash with `secret`, which only this process has.
    private let known = Mutex<[[UInt8]: (visitor: Visitor, end: ContinuousClock.Instant)]>([:])
    private let secret = Random.bytes(32)
    /// The hash that is checked for an unknown name, so that it takes as long as for a known one.
    private let nobody: PasswordHash

    /// - Throws: `Invalid`, with the line and a sentence that says what is wrong.
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

    /// The hash of a bearer token, as a line of the file has it behind name and role.
    package static func hash(token: String) -> String { "sha256:" + Hexadecimal.text(SHA256.digest(Array(token.utf8))) }

    /// The visitor whose credentials are in an Authorization field (Basic or Bearer).
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
        guard let bytes = Base64.decode(credentials.utf8), let text = String(validating: bytes, as: UTF8.self),
            let colon = text.utf8.firstIndex(of: UInt8(ascii: ":"))
        else {
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
