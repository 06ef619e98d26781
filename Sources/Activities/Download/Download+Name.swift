import HaulContract
import HaulHTTP
import HaulStorage

// The name of a downloaded file.
extension Download {
    /// The file's name, if the job does not give one.
    func suggestedName(_ head: ResponseHead, _ final: WebURL) -> String {
        ContentEncoding.name(plainName(head, final), of: head.encoding)
    }

    /// The warning about a body that is compressed although the request did not allow it. nil if the file's name shows
    /// the compression, or if there is none.
    func compressionWarning(_ head: ResponseHead, _ final: WebURL) -> String? {
        let encoding = head.encoding
        guard !encoding.isEmpty else { return nil }
        let given = job.path.flatMap { $0.utf8.last == UInt8(ascii: "/") ? nil : $0 }
        guard !ContentEncoding.isShown(encoding, in: given ?? plainName(head, final)) else { return nil }
        return "the server sent the file compressed although the request did not allow it; it is saved as received ("
            + ContentEncoding.codings(encoding).joined(separator: ", ").clipped(to: 100) + ")"
    }

    private func plainName(_ head: ResponseHead, _ final: WebURL) -> String {
        head.headers["content-disposition"].flatMap(ContentDisposition.fileName).flatMap(FileName.sanitise)
            ?? mirrors[0].address.flatMap { FileName.sanitise($0.lastComponent) } ?? FileName.sanitise(
                final.lastComponent) ?? "download"
    }
}
