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
            + ContentEncoding.codings(encoding).joined(separator: ", ").truncated(toBytes: 100) + ")"
    }

    private func plainName(_ head: ResponseHead, _ final: WebURL) -> String {
        head.headers["content-disposition"].flatMap(ContentDisposition.fileName).flatMap(FileName.sanitize)
            ?? nameFromURL(final) ?? "download"
    }

    /// The name that the URL gives. If only the URL where the redirects led gives one with an extension, that one, as in
    /// browsers: `/latest` leads to `prog-1.2.zip`. Otherwise the URL's own, since `film.mkv` may lead to `objects/8f3a`.
    func nameFromURL(_ final: WebURL) -> String? {
        let own = mirrors[0].address.flatMap { FileName.sanitize($0.lastComponent) }
        guard let end = FileName.sanitize(final.lastComponent), own == nil || FileName.hasExtension(end),
            own.map(FileName.hasExtension) != true
        else { return own }
        return end
    }
}
