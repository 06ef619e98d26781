/// Checks the URLs of a job. Bus/Lua/claim/urls.lua does the same check for the claim. Both must be changed together;
/// the same test cases cover both.
package enum URLRule {
    static let text = "must be an http or https URL with a valid host name, without spaces or control characters"

    package static let maxBytes = 8192

    /// Whether a job of any kind may have this URL.
    package static func accepts(_ url: String) -> Bool { fault(url) == nil }

    /// Whether a URL begins with a scheme and "://". Its query may have another URL.
    package static func hasScheme(_ url: String) -> Bool {
        let start = url.prefix { $0 != "/" && $0 != "?" && $0 != "#" }
        return start.hasSuffix(":") && url[start.endIndex...].hasPrefix("//")
    }

    /// Whether a URL names an object of a bucket, which only downloads may do.
    package static func isObject(_ url: String) -> Bool { url.utf8.starts(with: "s3://".utf8) }

    /// The first rule that the URL of a job of this kind breaks; nil if the job may have it.
    package static func fault(_ url: String, of kind: Job.Kind) -> FieldFault? {
        kind == .download && isObject(url) ? objectFault(url) : fault(url)
    }

    /// Accepts `s3://BUCKET/KEY`, whose key is percent-encoded, and `?versionId=ID` after it.
    private static func objectFault(_ url: String) -> FieldFault? {
        let bytes = Array(url.utf8)
        guard bytes.count <= maxBytes else { return .urlTooLong }
        guard !bytes.contains(where: { $0 <= 32 || $0 == 127 }) else { return .urlSpace }
        let isEnd: (UInt8) -> Bool = { $0 == UInt8(ascii: "?") || $0 == UInt8(ascii: "#") }
        let rest = bytes.dropFirst("s3://".utf8.count)
        let bucket = rest.prefix { $0 != UInt8(ascii: "/") && !isEnd($0) }
        guard isBucket(bucket) else { return .bucket }
        let key = rest[bucket.endIndex...].prefix { !isEnd($0) }
        guard key.count > 1 else { return .key }
        let query = rest[key.endIndex...]
        guard !query.isEmpty else { return nil }
        let version = query.dropFirst("?versionId=".utf8.count)
        guard query.starts(with: "?versionId=".utf8), !version.isEmpty,
            !version.contains(where: { isEnd($0) || $0 == UInt8(ascii: "&") })
        else { return .version }
        return nil
    }

    private static func isBucket(_ name: ArraySlice<UInt8>) -> Bool {
        guard 3...63 ~= name.count, let first = name.first, isDigit(first) || 97...122 ~= first | 32 else {
            return false
        }
        return name.allSatisfy { isNameByte($0) || $0 == UInt8(ascii: ".") }
    }

    /// The first rule that a URL of a server breaks; nil if a job may have it. Compares bytes: Swift joins "/" and a
    /// combining mark into one character.
    package static func fault(_ url: String) -> FieldFault? {
        let bytes = Array(url.utf8)
        guard bytes.count <= maxBytes else { return .urlTooLong }
        guard !bytes.contains(where: { $0 <= 32 || $0 == 127 }) else { return .urlSpace }
        guard let colon = bytes.firstIndex(of: UInt8(ascii: ":")), bytes[colon...].starts(with: "://".utf8) else {
            return .scheme
        }
        let scheme = bytes[..<colon].map { 65...90 ~= $0 ? $0 + 32 : $0 }
        guard scheme.elementsEqual("http".utf8) || scheme.elementsEqual("https".utf8) else { return .scheme }
        let authority = bytes[(colon + 3)...].prefix {
            $0 != UInt8(ascii: "/") && $0 != UInt8(ascii: "?") && $0 != UInt8(ascii: "#")
        }
        var address = authority
        if let at = authority.lastIndex(of: UInt8(ascii: "@")) {
            address = authority[(at + 1)...]
            guard !authority[..<at].contains("%00".utf8) else { return .login }
        }
        if address.first == UInt8(ascii: "[") {
            guard let end = address.firstIndex(of: UInt8(ascii: "]")), isIPv6(address[..<end].dropFirst()) else {
                return .ipv6
            }
            return isPort(address[(end + 1)...]) ? nil : .port
        }
        let host = address.prefix { $0 != UInt8(ascii: ":") }
        if let fault = hostFault(host) { return fault }
        return isPort(address[host.endIndex...]) ? nil : .port
    }

    /// Accepts nothing, or a colon alone, or a colon and a number from 1 to 65535.
    private static func isPort(_ text: ArraySlice<UInt8>) -> Bool {
        guard let first = text.first else { return true }
        let digits = text.dropFirst()
        guard first == UInt8(ascii: ":"), digits.count <= 5, digits.allSatisfy(isDigit) else { return false }
        return digits.isEmpty || 1...65535 ~= number(digits)
    }

    /// Accepts an IPv4 address of four numbers, or a name: letters, digits, "-", "_" and non-ASCII bytes between dots.
    private static func hostFault(_ host: ArraySlice<UInt8>) -> FieldFault? {
        guard !host.isEmpty else { return .noHost }
        guard host.count <= 254 else { return .hostTooLong }
        guard host.allSatisfy({ $0 >= 128 || isNameByte($0) || $0 == UInt8(ascii: ".") }) else { return .host }
        // A name may end in a dot.
        let name = host.last == UInt8(ascii: ".") ? host.dropLast() : host
        let labels = name.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard labels.allSatisfy({ !$0.isEmpty }) else { return .host }
        let isASCII = host.allSatisfy { $0 < 128 }
        guard !isASCII || labels.allSatisfy({ $0.count <= 63 }) else { return .hostTooLong }
        let last = labels.last!
        let isNumber =
            last.allSatisfy(isDigit)
            || last.first == UInt8(ascii: "0") && last.count > 1 && last.dropFirst().first! | 32 == UInt8(ascii: "x")
                && last.dropFirst(2).allSatisfy(isHexadecimal)
        return !isNumber || isIPv4(name) ? nil : .ipv4
    }

    private static func isIPv4(_ text: ArraySlice<UInt8>) -> Bool {
        let parts = text.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        return parts.count == 4
            && parts.allSatisfy {
                // Some programs read a number with a leading zero as octal.
                (1...3).contains($0.count) && $0.allSatisfy(isDigit) && number($0) <= 255
                    && ($0.count == 1 || $0.first != UInt8(ascii: "0"))
            }
    }

    /// Accepts an IPv6 address without brackets: eight groups of up to four hexadecimal digits. "::" may replace some
    /// of them, an IPv4 address may replace the last two, and a zone may follow.
    private static func isIPv6(_ text: ArraySlice<UInt8>) -> Bool {
        let address = text.prefix { $0 != UInt8(ascii: "%") }
        let zone = text[address.endIndex...]
        guard
            zone.isEmpty || zone.count > 1 && zone.dropFirst().allSatisfy({ isNameByte($0) || $0 == UInt8(ascii: ".") })
        else { return false }
        // Neither Linux nor libcurl accepts a longer name of an interface.
        let name = zone.dropFirst(zone.count > 3 && zone.starts(with: "%25".utf8) ? 3 : 1)
        guard name.count <= 15 else { return false }
        var text = Array(address)
        // An IPv4 address stands for the last two groups.
        if text.contains(UInt8(ascii: ".")) {
            guard let colon = text.lastIndex(of: UInt8(ascii: ":")), isIPv4(text[(colon + 1)...]) else { return false }
            text = text[...colon] + Array("0:0".utf8)
        }
        let groups = text.split(separator: UInt8(ascii: ":"))
        guard groups.allSatisfy({ $0.count <= 4 && $0.allSatisfy(isHexadecimal) }) else { return false }
        let colon = UInt8(ascii: ":")
        let gaps = zip(text, text.dropFirst()).count { $0 == colon && $1 == colon }
        if gaps == 0 {
            return groups.count == 8 && text.count { $0 == colon } == 7 && text.first != colon && text.last != colon
        }
        // There is one gap ("::"), and no single colon at either end.
        return gaps == 1 && groups.count <= 7 && (text.first != colon || text[1] == colon)
            && (text.last != colon || text[text.count - 2] == colon)
    }

    private static func number(_ digits: ArraySlice<UInt8>) -> Int { digits.reduce(0) { $0 * 10 + Int($1 - 48) } }
    private static func isDigit(_ byte: UInt8) -> Bool { 48...57 ~= byte }
    private static func isHexadecimal(_ byte: UInt8) -> Bool { isDigit(byte) || 97...102 ~= byte | 32 }
    private static func isNameByte(_ byte: UInt8) -> Bool {
        isDigit(byte) || 97...122 ~= byte | 32 || byte == UInt8(ascii: "-") || byte == UInt8(ascii: "_")
    }
}
