import CHaulOpenSSL
import HaulContract
import HaulHTTPServer
import Synchronization

/// What a visitor may do.
package enum Role: String, Sendable, CaseIterable {
    /// Sees jobs without their secrets, and changes nothing.
    case viewer
    case `operator`
}

/// The person or program that sends a request.
package struct Visitor: Sendable, Equatable {
    /// nil if there are no accounts and no sign-in.
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
        case visitor(Visitor, Proof)
        /// The request has no credentials.
        case none
        /// The credentials are wrong. `name` is the user's name, as the client gives it; nil without one.
        case wrong(name: String?)
        /// Too many passwords wait to be checked.
        case busy(name: String)
    }

    /// How a visitor has signed in.
    enum Proof: Equatable {
        /// With a password that was checked now, or earlier.
        case checked, remembered
        case token
    }

    private let users: [String: (role: Role, hash: PasswordHash)]
    /// Visitors by the SHA-256 of their token.
    private let tokens: [[UInt8]: Visitor]
    private let queue = SignInQueue()
    /// Credentials that were right, by a hash with `secret`, which only this process has. So guesses never delay those
    /// who have signed in. They are forgotten when they were not used for `memory`.
    private let known = Mutex<[[UInt8]: (visitor: Visitor, end: ContinuousClock.Instant)]>([:])
    private let secret = Random.bytes(32)
    /// The hash that is checked for an unknown name, so that it takes as long as for a known one.
    private let unknownUserHash: PasswordHash

    private static let memory: Duration = .seconds(12 * 3600)

    /// - Throws: `Invalid`, with the line and a sentence that says what is wrong.
    package init(_ text: String) throws(Invalid) {
        var users: [String: (role: Role, hash: PasswordHash)] = [:]
        var tokens: [[UInt8]: Visitor] = [:]
        for (index, line) in text.split(separator: "\n", omittingEmptySubsequences: false).enumerated() {
            let words = line.split { $0 == " " || $0 == "\t" || $0 == "\r" }.map(String.init)
            guard let name = words.first, !name.hasPrefix("#") else { continue }
            let location = "line \(index + 1)"
            guard words.count == 3 else {
                throw Invalid(description: "\(location) must have a name, a role and a hash")
            }
            guard let role = Role(rawValue: words[1]) else {
                throw Invalid(description: "\(location): \"\(words[1])\" is not a role: write viewer or operator")
            }
            guard !name.contains(":") else { throw Invalid(description: "\(location): a name has no colon") }
            if words[2].hasPrefix("sha256:") {
                guard let hash = Hexadecimal.bytes(String(words[2].dropFirst(7))), hash.count == 32 else {
                    throw Invalid(description: "\(location): sha256: must be followed by 64 hexadecimal digits")
                }
                tokens[hash] = Visitor(name: name, role: role)
            } else {
                guard let hash = PasswordHash(words[2]) else {
                    throw Invalid(description: "\(location): the hash was not made by haul web hash-password")
                }
                guard users.updateValue((role, hash), forKey: name) == nil else {
                    throw Invalid(description: "\(location): the user \(name) is listed twice")
                }
            }
        }
        guard !users.isEmpty || !tokens.isEmpty else {
            throw Invalid(description: "it lists no user: add one with haul web hash-password")
        }
        (self.users, self.tokens) = (users, tokens)
        unknownUserHash = users.values.map(\.hash).max { $0.memory < $1.memory } ?? PasswordHash(password: "", cost: 4)
    }

    /// The hash of a bearer token, as a line of the file has it behind name and role.
    package static func hash(token: String) -> String { "sha256:" + Hexadecimal.text(SHA256.digest(Array(token.utf8))) }

    /// The visitor whose credentials are in an Authorization field (Basic or Bearer).
    func visitor(_ authorization: String?, from client: ClientAddress) async -> Outcome {
        guard let authorization else { return .none }
        let words = authorization.split(separator: " ", maxSplits: 1).map(String.init)
        guard words.count == 2 else { return .wrong(name: nil) }
        switch words[0].lowercased() {
        case "bearer":
            return tokens[SHA256.digest(Array(words[1].utf8))].map { .visitor($0, .token) } ?? .wrong(name: nil)
        case "basic": return await user(words[1], from: client)
        default: return .wrong(name: nil)
        }
    }

    private func user(_ credentials: String, from client: ClientAddress) async -> Outcome {
        let digest = SHA256.digest(secret + Array(credentials.utf8))
        if let visitor = remembered(digest) { return .visitor(visitor, .remembered) }
        guard let bytes = Base64.decode(credentials.utf8), let text = String(validating: bytes, as: UTF8.self),
            let colon = text.utf8.firstIndex(of: UInt8(ascii: ":"))
        else {
            return .wrong(name: nil)
        }
        let (name, password) = (String(text[..<colon]), String(text[text.utf8.index(after: colon)...]))
        let user = users[name]
        let hash = user?.hash ?? unknownUserHash
        let attempt = SignInQueue.Attempt(name: name, isKnown: user != nil, network: client.network)
        guard let isRight = await queue.run(attempt, { hash.matches(password) }) else {
            // The same password may have been checked for another request meanwhile.
            return remembered(digest).map { .visitor($0, .remembered) } ?? .busy(name: name)
        }
        guard isRight, let user else { return .wrong(name: name) }
        let visitor = Visitor(name: name, role: user.role)
        known.withLock {
            if $0.count >= 256 { $0.removeAll() }
            $0[digest] = (visitor, .now + Self.memory)
        }
        return .visitor(visitor, .checked)
    }

    private func remembered(_ digest: [UInt8]) -> Visitor? {
        known.withLock { known in
            guard let (visitor, end) = known[digest] else { return nil }
            known[digest] = end > .now ? (visitor, .now + Self.memory) : nil
            return end > .now ? visitor : nil
        }
    }
}
