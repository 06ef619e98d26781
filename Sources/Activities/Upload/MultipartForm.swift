import HaulContract
import HaulHTTP
import HaulStorage

/// Builds the body of a multipart form with files (RFC 7578).
struct MultipartForm {
    let boundary: String

    /// - Parameter boundary: A text that occurs in no file. The default is random, so that the author of a file cannot
    ///   guess it.
    init(boundary: String = "haul-" + String(UInt128.random(in: 0...(.max)), radix: 36)) { self.boundary = boundary }

    var type: String { "multipart/form-data; boundary=\(boundary)" }

    /// The pieces of the body: the fields first, then each file with its header.
    func pieces(
        _ fields: [Job.Item], _ files: [(file: Job.Upload.File, source: any SourceFile)]
    ) -> [UploadBody.Piece] {
        var pieces: [UploadBody.Piece] = []
        for field in fields {
            pieces.append(text("--\(boundary)\r\n\(FormData.disposition(field.name))\r\n\r\n\(field.value)\r\n"))
        }
        for (file, source) in files {
            let disposition = FormData.disposition(file.name ?? "file", filename: file.sentName)
            pieces.append(
                text(
                    "--\(boundary)\r\n\(disposition)\r\n"
                        + "Content-Type: \(file.type ?? Job.Upload.File.defaultType)\r\n\r\n"))
            pieces.append(.file(source, 0..<(source.size ?? 0)))
            pieces.append(text("\r\n"))
        }
        return pieces + [text("--\(boundary)--\r\n")]
    }

    private func text(_ text: String) -> UploadBody.Piece { .bytes(Array(text.utf8)) }
}
