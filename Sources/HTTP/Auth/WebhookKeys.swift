import CHaulOpenSSL
import Glibc
package import HaulContract

/// The keys of one secret, with which requests are signed by Standard Webhooks (https://www.standardwebhooks.com).
package struct WebhookKeys: Sendable, Equatable {
    /// While a key is being replaced there are two, and each request has a signature of both.
    private let keys: [[UInt8]]

    /// Why a text has no keys, as the end of a sentence that begins with its file.
    package struct Invalid: Error { let reason: String }

    /// Reads a text with a key in each line: base 64 of 24 to 64 bytes, usually behind `whsec_`.
    package init(text: String) throws(Invalid) {
        var keys: [[UInt8]] = []
        for (index, line) in text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline).enumerated() {
            for word in line.split(whereSeparator: \.isWhitespace) {
                let digits = word.hasPrefix("whsec_") ? word.dropFirst(6) : word
                let key = Base64.decode(digits.utf8)
                guard let key, 24...64 ~= key.count else {
                    let why = key.map { "has \($0.count) bytes" } ?? "is not base 64"
                    throw Invalid(reason: "must have keys only, and line \(index + 1) \(why)")
                }
                keys.append(key)
            }
        }
        guard 1...4 ~= keys.count else {
            throw Invalid(reason: "must have one to four keys, not \(keys.count)")
        }
        self.keys = keys
    }

    /// The maximum size of a file that is read, in bytes.
    private static let maxBytes = 4096

    /// Reads a file.
    ///
    /// - Throws: `io` with a sentence for the operator.
    package init(file: String) throws(Failure) {
        let descriptor = open(file, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else {
            let why = String(cString: strerror(errno))
            throw Failure(.io, "the secret of webhooks, \(file), cannot be read: \(why)")
        }
        defer { close(descriptor) }
        var bytes = [UInt8](repeating: 0, count: Self.maxBytes)
        let count = read(descriptor, &bytes, bytes.count)
        guard count >= 0 else {
            let why = String(cString: strerror(errno))
            throw Failure(.io, "the secret of webhooks, \(file), cannot be read: \(why)")
        }
        do throws(Invalid) { self = try WebhookKeys(text: String(decoding: bytes[..<count], as: UTF8.self)) } catch {
            throw Failure(
                .io,
                "the secret of webhooks, \(file), \(error.reason). A key is whsec_ and base 64 of 24 to 64 bytes: echo whsec_$(openssl rand -base64 32) makes one"
            )
        }
    }

    /// The header fields of a request.
    ///
    /// - Parameter timestamp: Unix seconds.
    package func fields(id: String, timestamp: Int64, body: [UInt8]) -> [HeaderField] {
        let content = Array("\(id).\(timestamp).".utf8) + body
        let signatures = keys.map { "v1," + Base64.encode(Self.hmac($0, content)) }
        return [
            HeaderField("webhook-id", id), HeaderField("webhook-timestamp", String(timestamp)),
            HeaderField("webhook-signature", signatures.joined(separator: " ")),
        ]
    }

    private static func hmac(_ key: [UInt8], _ content: [UInt8]) -> [UInt8] {
        var (result, length) = ([UInt8](repeating: 0, count: 32), 0)
        EVP_Q_mac(nil, "HMAC", nil, "SHA256", nil, key, key.count, content, content.count, &result, 32, &length)
        return result
    }
}
