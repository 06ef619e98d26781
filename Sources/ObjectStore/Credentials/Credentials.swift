import HaulContract

/// An access key and its secret. No printed form of it contains the secret or the token.
struct Credentials: Sendable, Equatable, CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    let accessKey: String
    let secret: String
    /// The session token that temporary credentials need; nil for permanent ones.
    var token: String?
    /// When the credentials expire, in seconds since 1970; nil if the source names no time.
    var expires: Int64?

    var description: String { "credentials of \(accessKey.prefix(4))…" }
    var debugDescription: String { description }
    var customMirror: Mirror { Mirror(self, children: [:]) }

    /// Seconds before the end at which credentials are fetched again, so that none expires during a request.
    private static let margin: Int64 = 300

    /// Whether more than `margin` is left until the credentials expire.
    func areFresh(at now: Int64) -> Bool { expires.map { now < $0 - Self.margin } ?? true }

    /// Whether the credentials have not expired yet.
    func areUsable(at now: Int64) -> Bool { expires.map { now < $0 } ?? true }
}

extension Credentials {
    /// Reads the JSON response of a container's or an instance's credentials service; nil if `bytes` is not one.
    init?(json bytes: [UInt8]) {
        guard let json = try? JSONText(bytes), let key = json["AccessKeyId"], let secret = json["SecretAccessKey"]
        else { return nil }
        self.init(
            accessKey: key, secret: secret, token: json["Token"],
            expires: json["Expiration"].flatMap(AmazonTime.seconds))
    }

    /// Reads the XML response of AssumeRoleWithWebIdentity; nil if `body` is not one.
    init?(assumed body: XMLElement) {
        guard let result = body["AssumeRoleWithWebIdentityResult"]?["Credentials"],
            let key = result.text("AccessKeyId"), let secret = result.text("SecretAccessKey"), !key.isEmpty
        else { return nil }
        self.init(
            accessKey: key, secret: secret, token: result.text("SessionToken"),
            expires: result.text("Expiration").flatMap(AmazonTime.seconds))
    }
}

/// The string members of a JSON object. An empty string counts as absent.
struct JSONText {
    private let json: JSON

    init(_ bytes: [UInt8]) throws { json = try JSON(bytes) }

    subscript(_ name: String) -> String? {
        json.members?.first { $0.name == name }?.value.string.flatMap { $0.isEmpty ? nil : $0 }
    }
}
