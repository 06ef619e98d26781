import HaulHTTP

/// Percent-encoding for the URIs of S3. The URI that is sent must equal the signed one byte by byte.
enum URIText {
    static func encode(_ text: String) -> String { PercentEncoding.component(text) }

    /// Encodes a path except for its slashes.
    static func path(_ text: String) -> String { PercentEncoding.component(text, keeping: [UInt8(ascii: "/")]) }

    /// Encodes a query in the order that a signature needs: sorted by the encoded names, then by the values.
    static func query(_ items: [(String, String)]) -> String {
        items.map { (encode($0), encode($1)) }.sorted { $0 < $1 }.map { "\($0)=\($1)" }.joined(separator: "&")
    }
}
