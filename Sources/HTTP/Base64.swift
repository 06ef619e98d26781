import FoundationEssentials

/// Base 64 with padding (RFC 4648 section 4).
enum Base64 {
    /// nil for what no encoder writes: other characters, a wrong length, or padding that hides bits.
    static func decode(_ text: some Collection<UInt8>) -> [UInt8]? {
        let text = Data(text)
        // Foundation reads bits that the padding hides (RFC 4648 section 3.5).
        guard let bytes = Data(base64Encoded: text), bytes.base64EncodedData() == text else { return nil }
        return Array(bytes)
    }
}
