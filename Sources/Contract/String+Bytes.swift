extension String {
    /// The first occurrence of `text`. Compares bytes, so that a combining mark after `text` does not hide it.
    package func byteRange(of text: String) -> Range<Index>? {
        let sought = text.utf8
        return utf8.indices.first { utf8[$0...].starts(with: sought) }
            .map { $0..<utf8.index($0, offsetBy: sought.count) }
    }
}
