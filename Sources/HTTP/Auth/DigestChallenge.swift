import HaulContract
import Synchronization

/// A server's Digest challenge (RFC 7616), and the response to it. Supports MD5 and SHA-256, each with or without
/// `-sess`, and `qop=auth` or the older form without qop.
package struct DigestChallenge: Sendable, Equatable {
    package let realm: String
    package let nonce: String
    package let opaque: String?
    /// As the server sent it; nil if it sent none, which means MD5.
    package let algorithm: String?
    /// The server sent a qop, so the response has a count and a nonce of our own.
    package let hasQOP: Bool
    /// Only the nonce has expired; the credentials were right.
    package let isStale: Bool

    private var hash: Job.Checksum.Algorithm { algorithm?.lowercased().hasPrefix("sha-256") == true ? .sha256 : .md5 }
    private var isSession: Bool { algorithm?.lowercased().hasSuffix("-sess") == true }

    /// The strongest supported challenge among the values of WWW-Authenticate; nil if there is none.
    package init?(_ fields: [String]) {
        let challenges = fields.flatMap(Challenges.read).compactMap(DigestChallenge.init)
        guard let best = challenges.first(where: { $0.hash == .sha256 }) ?? challenges.first else { return nil }
        self = best
    }

    /// Whether one of the values of WWW-Authenticate offers Basic.
    package static func offersBasic(_ fields: [String]) -> Bool {
        fields.flatMap(Challenges.read).contains { $0.scheme == "basic" }
    }

    /// What goes back to the server: bytes.
    private static let maxBytes = 8 << 10

    private init?(_ challenge: Challenges.Challenge) {
        guard challenge.scheme == "digest", let realm = challenge.parameters["realm"],
            let nonce = challenge.parameters["nonce"]
        else { return nil }
        algorithm = challenge.parameters["algorithm"]
        // There is no response to a value that no header field could carry back.
        let values = [realm, nonce, challenge.parameters["opaque"] ?? ""]
        guard values.map(\.utf8.count).reduce(0, +) <= Self.maxBytes else { return nil }
        guard values.allSatisfy({ !$0.utf8.contains { $0 < 0x20 || $0 == 0x7F } }) else { return nil }
        let known = ["md5", "md5-sess", "sha-256", "sha-256-sess"]
        guard known.contains(algorithm?.lowercased() ?? "md5") else { return nil }
        let qop = challenge.parameters["qop"]?.split(separator: ",").map { $0.trimmed.lowercased() }
        guard qop?.contains("auth") ?? true else { return nil }
        (self.realm, self.nonce, opaque) = (realm, nonce, challenge.parameters["opaque"])
        hasQOP = qop != nil
        isStale = challenge.parameters["stale"]?.lowercased() == "true"
    }

    /// The value of the Authorization field.
    ///
    /// - Parameters:
    ///   - target: The path and query, as libcurl requests them.
    ///   - count: How often the nonce has been used, this request included.
    ///   - clientNonce: Our own nonce.
    func authorization(_ login: WebURL.Login, method: String, target: String, count: Int, clientNonce: String) -> String
    {
        var secret = hash.hexadecimal(of: "\(login.user):\(realm):\(login.password)")
        if isSession { secret = hash.hexadecimal(of: "\(secret):\(nonce):\(clientNonce)") }
        let digits = String(count, radix: 16)
        let number = String(repeating: "0", count: max(0, 8 - digits.count)) + digits
        let middle = hasQOP ? "\(nonce):\(number):\(clientNonce):auth" : nonce
        let response = hash.hexadecimal(of: "\(secret):\(middle):\(hash.hexadecimal(of: "\(method):\(target)"))")
        var parts = [
            "username=\(Self.quoted(login.user))", "realm=\(Self.quoted(realm))", "nonce=\(Self.quoted(nonce))",
            "uri=\(Self.quoted(target))", "response=\"\(response)\"",
        ]
        if let algorithm { parts.append("algorithm=\(algorithm)") }
        if let opaque { parts.append("opaque=\(Self.quoted(opaque))") }
        if hasQOP { parts += ["qop=auth", "nc=\(number)"] }
        if hasQOP || isSession { parts.append("cnonce=\"\(clientNonce)\"") }
        return "Digest " + parts.joined(separator: ", ")
    }

    private static func quoted(_ text: String) -> String {
        "\"" + text.replacing("\\", with: "\\\\").replacing("\"", with: "\\\"") + "\""
    }
}

/// The challenges in one value of WWW-Authenticate (RFC 9110 section 11.6.1).
private struct Challenges {
    struct Challenge {
        /// In lower case, like the names of the parameters.
        let scheme: String
        var parameters: [String: String] = [:]
    }

    private var rest: Substring.UTF8View

    static func read(_ text: String) -> [Challenge] {
        var reader = Challenges(rest: Substring(text).utf8)
        var challenges: [Challenge] = []
        while let word = reader.nextWord() {
            if reader.take(UInt8(ascii: "=")) {
                let value = reader.nextValue()
                // A parameter without a scheme before it belongs to no challenge.
                if !challenges.isEmpty { challenges[challenges.count - 1].parameters[word.lowercased()] = value }
            } else {
                challenges.append(Challenge(scheme: word.lowercased()))
            }
        }
        return challenges
    }

    /// The next token. Skips blanks, commas and other characters that are not part of a token.
    private mutating func nextWord() -> String? {
        while let byte = rest.first, !Self.isTokenCharacter(byte) {
            if byte == UInt8(ascii: "\"") { _ = quoted() } else { rest.removeFirst() }
        }
        let word = rest.prefix(while: Self.isTokenCharacter)
        rest = rest[word.endIndex...]
        skipBlanks()
        return word.isEmpty ? nil : String(Substring(word))
    }

    private mutating func nextValue() -> String {
        skipBlanks()
        if rest.first == UInt8(ascii: "\"") { return quoted() }
        let word = rest.prefix(while: Self.isTokenCharacter)
        rest = rest[word.endIndex...]
        return String(Substring(word))
    }

    private mutating func quoted() -> String {
        rest.removeFirst()
        var bytes: [UInt8] = []
        while let byte = rest.popFirst(), byte != UInt8(ascii: "\"") {
            if byte == UInt8(ascii: "\\"), let next = rest.popFirst() { bytes.append(next) } else { bytes.append(byte) }
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    private mutating func take(_ byte: UInt8) -> Bool {
        guard rest.first == byte else { return false }
        rest.removeFirst()
        return true
    }

    private mutating func skipBlanks() { rest = rest.drop { $0 == 0x20 || $0 == 0x09 } }

    private static func isTokenCharacter(_ byte: UInt8) -> Bool {
        byte > 0x20 && byte < 0x7F && !"\"(),/:;<=>?@[\\]{}".utf8.contains(byte)
    }
}

/// What the servers of one download have asked for: their nonces, and which of them take Basic. Later requests need no
/// new challenge.
package final class DigestSession: Sendable {
    private struct Nonce {
        let challenge: DigestChallenge
        let clientNonce = String(UInt64.random(in: 0...(.max)), radix: 16)
        var count = 0
    }

    private let nonces = Mutex<[String: Nonce]>([:])
    /// The origins that have asked for Basic.
    private let basic = Mutex<Set<String>>([])
    /// Redirects could lead to ever new origins. One that is forgotten asks again.
    private static let maxOrigins = 16

    package init() {}

    /// Stores a challenge. It replaces the earlier one of the same origin.
    package func record(_ challenge: DigestChallenge, from url: WebURL) {
        nonces.withLock { nonces in
            if nonces.count >= Self.maxOrigins, nonces[url.origin] == nil { nonces = [:] }
            nonces[url.origin] = Nonce(challenge: challenge)
        }
    }

    /// Records that the origin has asked for Basic. False if that is known already, so that the password was refused.
    package func recordBasic(from url: WebURL) -> Bool {
        basic.withLock { basic in
            if basic.count >= Self.maxOrigins, !basic.contains(url.origin) { basic = [] }
            return basic.insert(url.origin).inserted
        }
    }

    package func takesBasic(_ url: WebURL) -> Bool { basic.withLock { $0.contains(url.origin) } }

    /// The value of Authorization for a request; nil if its server has sent no challenge.
    package func authorization(_ login: WebURL.Login, method: String, for url: WebURL) -> String? {
        nonces.withLock { nonces in
            guard var nonce = nonces[url.origin] else { return nil }
            nonce.count += 1
            nonces[url.origin] = nonce
            return nonce.challenge.authorization(
                login, method: method, target: url.target, count: nonce.count, clientNonce: nonce.clientNonce)
        }
    }
}
