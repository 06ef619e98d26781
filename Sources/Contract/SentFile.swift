/// What came of one file of an upload that sends each of its files by a request of its own.
public struct SentFile: Sendable, Equatable {
    /// Relative to the workers' root.
    public let file: String
    /// What the server answered; nil if it did not.
    public let status: Int?
    /// Why it did not arrive; nil if it did.
    public let error: ErrorCode?

    /// The files that a member `files` of an event, or that field of a job's hash, tells of.
    package static func list(_ json: JSON?) -> [SentFile] {
        (json?.array ?? []).compactMap { entry in
            entry["file"]?.string.map {
                SentFile(
                    file: $0, status: entry["status"]?.integer.map { Int($0) },
                    error: entry["error"]?.string.map(ErrorCode.init(rawValue:)))
            }
        }
    }
}
