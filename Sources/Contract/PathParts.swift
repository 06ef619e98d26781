extension StringProtocol {
    /// The parts of a path, without empty ones. Splits at bytes, as the kernel does: Swift joins "/" and a following
    /// combining mark into one character, at which `split` would not split.
    package var pathParts: [String] {
        utf8.split(separator: UInt8(ascii: "/")).map { String(decoding: $0, as: UTF8.self) }
    }
}
