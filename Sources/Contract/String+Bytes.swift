extension String {
    /// Where `text` stands first. Bytes are compared: a mark that joins the character before it hides nothing.
    package func byteRange(of text: String) -> Range<Index>? {
        let sought = text.utf8
        return utf8.indices.first { utf8[$0...].starts(with: sought) }
            .map { $0..<utf8.index($0, offsetBy: sought.count) }
    }
}
