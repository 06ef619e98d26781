import HaulHTTP

/// Texts in the URIs of S3: what is signed must be what is sent, to the byte.
enum URIText {
    static func encode(_ text: String) -> String { PercentEncoding.component(text) }

    /// A path: its slashes stay.
    static func path(_ text: String) -> String { PercentEncoding.component(text, keeping: [UInt8(ascii: "/")]) }

    /// In the order in which it is signed.
    static func query(_ items: [(String, String)]) -> String {
        items.map { (encode($0), encode($1)) }.sorted { $0 < $1 }.map { "\($0)=\($1)" }.joined(separator: "&")
    }
}
