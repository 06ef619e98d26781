extension StringProtocol {
    /// What the kernel takes for the parts of a path. By bytes: to Swift a "/" beside a combining mark is part of
    /// another character, and would not divide.
    package var pathParts: [String] {
        utf8.split(separator: UInt8(ascii: "/")).map { String(decoding: $0, as: UTF8.self) }
    }
}
