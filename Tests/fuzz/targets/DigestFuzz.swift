/// Dictionaries of byte sequences and their digests: only what a canonical writer writes is parsed.
enum DigestFuzz: FuzzTarget {
    static func run(_ bytes: UnsafeRawBufferPointer) {
        if let decoded = Base64.decode(bytes) { precondition(encode(decoded).utf8.elementsEqual(bytes)) }
        let text = bytes.text
        if let members = ByteDictionary(text)?.members {
            let written = members.map { "\($0.key)=:\(encode($0.value)):" }.joined(separator: ", ")
            precondition(ByteDictionary(written)?.members == members)
        }
        for name in ["Repr-Digest", "Content-Digest", "Content-MD5"] {
            let headers = HeaderFields([HeaderField(name, text)])
            for status in [200, 206] {
                let found = DigestFields.checksum(ResponseHead(status: status, headers: headers, url: "http://h/"))
                if let found { precondition(Job.Checksum(found.description) == found) }
                if status == 206, name != "Repr-Digest" { precondition(found == nil) }
            }
        }
    }

    private static func encode(_ bytes: [UInt8]) -> String {
        let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
        var text = ""
        for start in stride(from: 0, to: bytes.count, by: 3) {
            let group = bytes[start..<min(start + 3, bytes.count)]
            let word = group.reduce(0) { $0 << 8 | Int($1) } << (8 * (3 - group.count))
            for index in 0..<4 {
                text.append(index <= group.count ? alphabet[word >> (18 - 6 * index) & 63] : "=")
            }
        }
        return text
    }
}
