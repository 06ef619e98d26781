/// Who asks. What is printed of it, by whatever means, holds no secret.
struct Credentials: Sendable, Equatable, CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    let accessKey: String
    let secret: String
    /// Of credentials that end.
    var token: String?
    /// Seconds since 1970; nil: they do not end.
    var expires: Int64?

    var description: String { "credentials of \(accessKey.prefix(4))…" }
    var debugDescription: String { description }
    var customMirror: Mirror { Mirror(self, children: [:]) }

    /// What is to be fetched anew before it ends, so that no request is under way with what is over: seconds.
    private static let margin: Int64 = 300

    /// Whether they are still good for a while.
    func areGood(at now: Int64) -> Bool { expires.map { now < $0 - Self.margin } ?? true }

    /// Whether they may still be used.
    func areUsable(at now: Int64) -> Bool { expires.map { now < $0 } ?? true }
}

extension Credentials {
    /// The answer of a container's or an instance's service (JSON); nil for what is none.
    init?(json bytes: [UInt8]) {
        guard let json = try? JSONText(bytes), let key = json["AccessKeyId"], let secret = json["SecretAccessKey"]
        else { return nil }
        self.init(
            accessKey: key, secret: secret, token: json["Token"],
            expires: json["Expiration"].flatMap(AmazonTime.seconds))
    }

    /// The answer of AssumeRoleWithWebIdentity (XML); nil for what is none.
    init?(assumed body: XMLElement) {
        guard let result = body["AssumeRoleWithWebIdentityResult"]?["Credentials"],
            let key = result.text("AccessKeyId"), let secret = result.text("SecretAccessKey"), !key.isEmpty
        else { return nil }
        self.init(
            accessKey: key, secret: secret, token: result.text("SessionToken"),
            expires: result.text("Expiration").flatMap(AmazonTime.seconds))
    }
}
