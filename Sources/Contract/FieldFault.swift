/// What is wrong with a value that a field refuses, where a field has several rules: the message names the one that the
/// value breaks. Bus/Library/LuaHead.swift renders the texts into Lua, and Bus/Lua/claim/faults.lua chooses among them
/// in the same order.
package enum FieldFault: String, CaseIterable, Sendable {
    case noText = "no_text"
    case empty
    case controlCharacter = "control_character"
    case urlTooLong = "url_too_long"
    case urlSpace = "url_space"
    case scheme
    case login
    case noHost = "no_host"
    case hostTooLong = "host_too_long"
    case host
    case ipv4
    case ipv6
    case port
    case bucket
    case key
    case version
    case pathTooLong = "path_too_long"
    case absolutePath = "absolute_path"
    case dotPart = "dot_part"
    case ownPart = "own_part"
    case partTooLong = "part_too_long"
    case directory
    case hostHeader = "host_header"
    case conditionalHeader = "conditional_header"
    case headerName = "header_name"
    case headerValue = "header_value"
    case methodOfDownload = "method_of_download"
    case methodOfUpload = "method_of_upload"
    case methodOfRequest = "method_of_request"

    package var text: String {
        switch self {
        case .noText: "must be a text"
        case .empty: "must not be empty"
        case .controlCharacter: "must not have control characters"
        case .urlTooLong: "must be at most \(URLRule.maxBytes) bytes"
        case .urlSpace: "must not have spaces or control characters: write a space as %20"
        case .scheme: "must begin with http:// or https://"
        case .login: "must not have %00 in the user or password"
        case .noHost: "must have a host name after ://"
        case .hostTooLong: "has a host name that is too long: at most 254 bytes, and 63 between two dots"
        case .host: "has an invalid host name: use letters, digits, - and _, with single dots between them"
        case .ipv4: "has an invalid IPv4 address: write four numbers from 0 to 255, such as 192.0.2.1"
        case .ipv6: "has an invalid IPv6 address: write it in brackets, such as http://[2001:db8::1]/"
        case .port: "has an invalid port: write a number from 1 to 65535"
        case .bucket:
            "has an invalid bucket name: write 3 to 63 letters, digits, -, _ and ., the first a letter or a digit"
        case .key: "must name an object after the bucket: s3://BUCKET/KEY"
        case .version: "may only have ?versionId=ID after the key: write ? as %3F and # as %23 in a key"
        case .pathTooLong: "must be at most 4096 bytes"
        case .absolutePath: "must be relative: it must not begin with /"
        case .dotPart: "must not have . or .. as a part"
        case .ownPart: "must not have a part that begins with .haul, in any case"
        case .partTooLong: "must not have a part of more than 255 bytes"
        case .directory: "must be a file: it must not end with /"
        case .hostHeader: "must not have the header host, because the URL names the host"
        case .conditionalHeader:
            "must not have headers that begin with \(JobField.forbiddenPrefix), because Haul sets conditions itself"
        case .headerName: "must have names of visible ASCII characters, without spaces and colons"
        case .headerValue: "must have values that are texts without line breaks and null characters"
        case .methodOfDownload: "must be a method in capital letters other than HEAD"
        case .methodOfUpload: "must be PUT, POST or PATCH"
        case .methodOfRequest: "must be a method in capital letters, such as POST"
        }
    }
}

extension JobField {
    /// The error message, without the field's name, for a value that `accepts` refuses. It is `rule`, unless the value
    /// breaks one of several rules.
    package func reason(against value: JSON, of job: Job.Kind) -> String {
        switch kind {
        case .url: value.string.flatMap { URLRule.fault($0, of: job) }?.text ?? FieldFault.noText.text
        case .urls: Self.urlsFault(value, of: job) ?? rule
        case .path, .file: Self.pathFault(value)?.text ?? (kind == .file ? FieldFault.directory.text : rule)
        case .checksum: Self.checksumFault(value) ?? rule
        case .headers: Self.headersFault(value, of: job) ?? rule
        case .method:
            switch job {
            case .download: FieldFault.methodOfDownload.text
            case .upload: FieldFault.methodOfUpload.text
            case .request: FieldFault.methodOfRequest.text
            }
        default: rule
        }
    }

    private static func urlsFault(_ value: JSON, of job: Job.Kind) -> String? {
        guard let urls = value.array, (1...16).contains(urls.count) else { return nil }
        for (index, url) in urls.enumerated() {
            guard let text = url.string else { return "number \(index + 1) \(FieldFault.noText.text)" }
            if let fault = URLRule.fault(text, of: job) { return "number \(index + 1) \(fault.text)" }
        }
        return nil
    }

    private static func pathFault(_ value: JSON) -> FieldFault? {
        guard let text = value.string else { return .noText }
        if text.utf8.isEmpty { return .empty }
        if text.utf8.count > 4096 { return .pathTooLong }
        if text.utf8.first == UInt8(ascii: "/") { return .absolutePath }
        if text.utf8.contains(where: { $0 < 32 || $0 == 127 }) { return .controlCharacter }
        let parts = text.pathParts
        if parts.contains(where: { $0 == "." || $0 == ".." }) { return .dotPart }
        if parts.contains(where: { isOwn($0) }) { return .ownPart }
        return parts.contains { $0.utf8.count > 255 } ? .partTooLong : nil
    }

    private static func checksumFault(_ value: JSON) -> String? {
        guard let bytes = value.string.map({ Array($0.utf8) }) else { return nil }
        let digits = bytes.prefix { 48...57 ~= $0 || 97...102 ~= $0 | 32 }
        for algorithm in Job.Checksum.Algorithm.allCases {
            let (name, count) = (algorithm.rawValue, algorithm.hexadecimalDigits)
            if bytes.starts(with: (name + ":").utf8) {
                let digest = bytes.dropFirst(name.utf8.count + 1)
                let rule = "must have \(count) hexadecimal digits after \(name):, "
                guard digest.count == count else { return rule + "not \(digest.count)" }
                let digits = digest.prefix { 48...57 ~= $0 || 97...102 ~= $0 | 32 }
                return rule + "but character \(digits.count + 1) of them is not one"
            }
            if digits.count == count, bytes.count == count {
                return "must name its algorithm: write \(name): before the \(count) digits"
            }
        }
        return nil
    }

    private static func headersFault(_ value: JSON, of job: Job.Kind) -> String? {
        guard let members = value.headers, members.count <= maxHeaders else { return nil }
        let names = members.map(\.name.lowercasedASCII)
        let forbidden = job == .download ? forbiddenHeaders : forbiddenInRequests
        if let name = names.filter(forbidden.contains).min() {
            return name == "host"
                ? FieldFault.hostHeader.text : "must not have the header \(name), because Haul sets it itself"
        }
        let isConditional = job == .download && names.contains { $0.utf8.starts(with: forbiddenPrefix.utf8) }
        if isConditional { return FieldFault.conditionalHeader.text }
        return names.allSatisfy(isHeaderName) ? FieldFault.headerValue.text : FieldFault.headerName.text
    }
}
