import Glibc

/// The shared credentials file of Amazon's tools: sections of `name = value` lines.
enum CredentialsFile {
    /// The credentials of `profile`; nil if the file has none.
    static func credentials(of profile: String, in text: String) -> Credentials? {
        let values = section(profile, of: text)
        guard let key = values["aws_access_key_id"], let secret = values["aws_secret_access_key"] else { return nil }
        return Credentials(accessKey: key, secret: secret, token: values["aws_session_token"])
    }

    /// The values of `profile` by their names in lower case; empty if the file has no such profile.
    static func section(_ name: String, of text: String) -> [String: String] {
        var values: [String: String] = [:]
        var isInside = false
        for line in text.split(whereSeparator: \.isNewline) {
            let bare = trimmed(line)
            if bare.hasPrefix("#") || bare.hasPrefix(";") { continue }
            if bare.hasPrefix("["), bare.hasSuffix("]") {
                let heading = trimmed(bare.dropFirst().dropLast())
                isInside = heading == name || heading == "profile \(name)"
                continue
            }
            guard isInside, let sign = bare.firstIndex(of: "=") else { continue }
            let value = trimmed(bare[bare.index(after: sign)...])
            if !value.isEmpty { values[trimmed(bare[..<sign]).lowercased()] = value }
        }
        return values
    }

    /// The text of a file, at most 256 KiB, without white space at both ends; nil if it is empty or cannot be read.
    static func text(at path: String) -> String? {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        var bytes = [UInt8](repeating: 0, count: 256 << 10)
        let count = read(descriptor, &bytes, bytes.count)
        return count > 0 ? trimmed(String(decoding: bytes[..<count], as: UTF8.self)) : nil
    }

    private static func trimmed(_ text: some StringProtocol) -> String {
        String(text.drop { $0.isWhitespace }.reversed().drop { $0.isWhitespace }.reversed())
    }
}
