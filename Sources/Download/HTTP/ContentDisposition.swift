/// The file name of a Content-Disposition (RFC 6266, RFC 8187).
enum ContentDisposition {
    /// `filename*` wins over `filename`; nil if there is neither. The name is as sent: it may be hostile.
    static func fileName(_ header: String) -> String? {
        var plain: String?
        var extended: String?
        for (name, value) in parameters(header) {
            switch name {
            case "filename" where plain == nil: plain = value
            case "filename*" where extended == nil: extended = decodeExtended(value)
            default: break
            }
        }
        return extended ?? plain
    }

    private static func parameters(_ header: String) -> [(String, String)] {
        var result: [(String, String)] = []
        var rest = header[...]
        // The disposition type itself.
        rest = rest[(rest.firstIndex(of: ";") ?? rest.endIndex)...]
        while let character = rest.first {
            if character == ";" || character == " " || character == "\t" {
                rest.removeFirst()
                continue
            }
            let name = rest.prefix { $0 != "=" && $0 != ";" }
            rest = rest[name.endIndex...]
            guard rest.first == "=" else { continue }
            rest.removeFirst()
            let key = name.lowercased().filter { $0 != " " && $0 != "\t" }
            if rest.first == "\"" {
                result.append((key, quoted(&rest)))
            } else {
                let value = rest.prefix { $0 != ";" }
                rest = rest[value.endIndex...]
                result.append((key, value.trimmingSpaces))
            }
        }
        return result
    }

    private static func quoted(_ rest: inout Substring) -> String {
        rest.removeFirst()
        var value = ""
        while let character = rest.popFirst(), character != "\"" {
            if character == "\\", let next = rest.popFirst() { value.append(next) } else { value.append(character) }
        }
        return value
    }

    /// `UTF-8''na%C3%AFve.txt`; other charsets than UTF-8 and ISO-8859-1 are not decoded.
    private static func decodeExtended(_ value: String) -> String? {
        let parts = value.split(separator: "'", maxSplits: 2, omittingEmptySubsequences: false)
        guard parts.count == 3 else { return nil }
        switch parts[0].lowercased() {
        case "utf-8": return PercentEncoding.decode(String(parts[2]))
        case "iso-8859-1":
            var scalars = String.UnicodeScalarView()
            var rest = parts[2].utf8[...]
            while let byte = rest.popFirst() {
                if byte == UInt8(ascii: "%"),
                    let code = UInt8(String(decoding: rest.prefix(2), as: UTF8.self), radix: 16)
                {
                    scalars.append(Unicode.Scalar(code))
                    rest = rest.dropFirst(2)
                } else {
                    scalars.append(Unicode.Scalar(byte))
                }
            }
            return String(scalars)
        default: return nil
        }
    }
}

extension Substring {
    fileprivate var trimmingSpaces: String {
        var rest = self
        while rest.last == " " || rest.last == "\t" { rest.removeLast() }
        while rest.first == " " || rest.first == "\t" { rest.removeFirst() }
        return String(rest)
    }
}
