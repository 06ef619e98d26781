/// The result of one file of an upload that sends each of its files in a request of its own (``Job/Upload/isEach``).
public struct SentFile: Sendable, Equatable {
    /// The path, relative to the workers' `--upload-from`.
    public let file: String
    /// The status of the server's response. nil if there was none.
    public let status: Int?
    /// Why the file did not arrive. nil if it did.
    public let error: ErrorCode?

    /// Reads the member `files` of an event, or the field `files` of a job's hash.
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
