/// An object as the server lists it.
struct ListedObject: Sendable, Equatable {
    let key: String
    let size: Int64
    let etag: String
    /// Seconds since 1970.
    let modified: Int64
}

/// A part as the server lists it.
struct ListedPart: Sendable, Equatable {
    let number: Int
    let etag: String
    let size: Int64
}

/// A multipart upload that is neither completed nor aborted.
struct ListedUpload: Sendable, Equatable {
    /// As the server sent it. Not every server that encodes it says so.
    let sent: String
    let key: String
    let id: String
    /// Seconds since 1970.
    let begun: Int64

    /// - Parameter isEncoded: The server says that it has encoded the keys.
    init(sent: String, isEncoded: Bool, id: String, begun: Int64) {
        (self.sent, self.id, self.begun) = (sent, id, begun)
        key = (isEncoded ? ListedKey.decoded(sent) : PartsRecord.decoded(sent[...])) ?? sent
    }

    func hasKey(_ key: String) -> Bool { [sent, self.key, PartsRecord.decoded(sent[...])].contains(key) }
}

/// The keys of listings. XML cannot have every character that the key of another program may have, so they are
/// requested with `encoding-type=url`.
enum ListedKey {
    /// An encoded key, in which Amazon writes "+" for a blank; nil if it is not valid.
    static func decoded(_ sent: String) -> String? { PartsRecord.decoded(sent.replacing("+", with: " ")[...]) }
}
