import HaulHTTP

/// Who has chosen the URLs of a download. That decides what of the command's options their servers get.
enum URLSource: Sendable, Equatable {
    /// The user, on the command line or in a list of the user's own.
    case user
    /// A list that a server of this origin has sent.
    case list(origin: String)
    /// A version that did not record it has begun the download.
    case unknown

    /// - Parameter server: The URL of the list; nil if the list is the user's own.
    init(list server: String?) {
        self = server.map { WebURL($0).map { .list(origin: $0.origin) } ?? .unknown } ?? .user
    }

    /// - Parameter text: `recorded` of an earlier run.
    init(recorded text: String?) { self = text.map { $0.isEmpty ? .user : .list(origin: $0) } ?? .unknown }

    /// What the record of a download says; nil if it says nothing.
    var recorded: String? {
        switch self {
        case .user: ""
        case .list(let origin): origin
        case .unknown: nil
        }
    }

    /// Whether the servers of these URLs get the passwords, header fields and cookies of the command. A list's server
    /// must not choose who gets them.
    func isTrusted(with urls: [String]) -> Bool {
        switch self {
        case .user: true
        case .list(let origin): urls.allSatisfy { WebURL($0)?.origin == origin }
        case .unknown: false
        }
    }
}
