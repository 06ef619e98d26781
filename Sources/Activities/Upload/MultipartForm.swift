import HaulContract
import HaulHTTP
import HaulStorage

/// A multipart form with files (RFC 7578): the text between the files.
struct MultipartForm {
    let boundary: String

    /// - Parameter boundary: A text that no file contains. The default is random, so that it cannot be guessed.
    init(boundary: String = "haul-" + String(UInt128.random(in: 0...(.max)), radix: 36)) { self.boundary = boundary }

    var type: String { "multipart/form-data; boundary=\(boundary)" }

    func pieces(
        _ items: [Job.Item], _ files: [(file: Job.Upload.File, source: any SourceFile)]
    ) -> [UploadBody.Piece] {
        var pieces: [UploadBody.Piece] = []
        for item in items {
            pieces.append(text("--\(boundary)\r\n\(FormData.disposition(item.name))\r\n\r\n\(item.value)\r\n"))
        }
        for (file, source) in files {
            let disposition = FormData.disposition(file.name ?? "file", filename: file.sentName)
            pieces.append(
                text(
                    "--\(boundary)\r\n\(disposition)\r\n"
                        + "Content-Type: \(file.type ?? Job.Upload.File.defaultType)\r\n\r\n"))
            pieces.append(.file(source, 0..<source.version.size))
            pieces.append(text("\r\n"))
        }
        return pieces + [text("--\(boundary)--\r\n")]
    }

    private func text(_ text: String) -> UploadBody.Piece { .bytes(Array(text.utf8)) }
}
