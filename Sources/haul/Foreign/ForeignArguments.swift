import HaulContract
import HaulDirect
import HaulTerminal

/// The words of a command line, with options of curl, wget, wget2 and aria2 replaced by ours: `ForeignOption.all`.
struct ForeignArguments {
    /// Our short options that take a value, and those that do not, so that `-fsSLo FILE` can be taken apart. A test
    /// compares them with the help.
    static let shortOptionsWithValue: [ForeignOption.Verb: String] = [
        .get: "HubAjxiModmw", .put: "HubAXjm", .call: "HubAXdFowmD",
    ]
    static let shortFlags: [ForeignOption.Verb: String] = [.get: "qvNRgh46", .put: "qvh46", .call: "IifvGh46"]

    /// Our long options that take a value of their own, so that no value is taken for an argument.
    static let longOptionsWithValue: [ForeignOption.Verb: Set<String>] = [
        .get: [
            "input-file", "metalink", "output", "mirror", "directory", "checksum", "checksum-file", "if-exists",
            "header", "user", "bearer", "netrc-file", "cookie", "save-cookies", "user-agent", "proxy", "ca",
            "client-cert", "client-key", "client-cert-host", "resolve", "connect-to", "interface", "unix-socket", "pin",
            "parallel", "connections", "limit-rate", "retries", "max-time", "min-speed", "connect-timeout", "timeout",
            "durability", "on-complete", "on-error", "watch", "progress", "config", "s3-endpoint", "s3-region",
            "s3-style",
            "write-out",
        ]
    ]

    private let verb: ForeignOption.Verb
    /// The index in `words` of the last URL or file.
    private var lastArgument: Int?
    private var rest: ArraySlice<String>
    private var words: [String] = []

    /// The words for the parser. Words that are not for `get`, `put` or `call` are returned unchanged. `haul URL` means
    /// `haul get URL`.
    ///
    /// - Throws: `ExitStatus.usage` for an option that has no counterpart; the reason has been printed.
    static func replaced(in words: [String]) throws -> [String] {
        if words == ["-V"] { return ["--version"] }
        let words = isURLFirst(words) ? ["get"] + words : words
        guard let verb = words.first.flatMap(ForeignOption.Verb.init) else { return words }
        var arguments = ForeignArguments(verb: verb, rest: words.dropFirst())
        try arguments.replaceAll()
        return [verb.rawValue] + arguments.words
    }

    private static func isURLFirst(_ words: [String]) -> Bool {
        guard let first = words.first else { return false }
        if isURL(first) { return true }
        // `haul -O URL`, as with curl. `--help` and `--version` stand alone.
        return first.hasPrefix("-") && !first.hasPrefix("---") && words.count > 1 && words.contains(where: isURL)
    }

    private static func isURL(_ word: String) -> Bool {
        let word = word.lowercased()
        return word.hasPrefix("http://") || word.hasPrefix("https://")
    }

    private init(verb: ForeignOption.Verb, rest: ArraySlice<String>) { (self.verb, self.rest) = (verb, rest) }

    private mutating func replaceAll() throws {
        while let word = rest.popFirst() {
            if word == "--" {
                words += [word] + rest
                return
            }
            if word.hasPrefix("--") {
                try replaceLong(word)
            } else if word.hasPrefix("-"), word.utf8.count > 1 {
                try replaceShort(word)
            } else {
                append(argument: word)
            }
        }
    }

    /// All URLs become one word: the parser's time grows with the square of the number of arguments.
    private mutating func append(argument: String) {
        if verb == .get, let lastArgument, !words[lastArgument].hasPrefix("-"), !argument.hasPrefix("-") {
            words[lastArgument] += GetURLs.separator + argument
            return
        }
        lastArgument = words.count
        words.append(argument)
    }

    private func option(_ name: String) -> ForeignOption? {
        ForeignOption.all.first { $0.names.contains(name) && $0.verbs.contains(verb) }
    }

    private mutating func replaceLong(_ word: String) throws {
        let parts = word.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
        let given = parts.count > 1 ? parts[1] : nil
        if verb == .get, parts[0] == "--mirror", let lastArgument {
            // The parser does not keep the order of options and arguments, so a mirror joins its file as in a list.
            words[lastArgument] += "\t" + (try given ?? value(of: parts[0]))
            return
        }
        guard let option = option(parts[0]) else {
            let isValued = Self.longOptionsWithValue[verb]?.contains(String(parts[0].dropFirst(2))) ?? false
            // Flags of aria2 have a value. Its `--continue` is about the given files, which are always continued.
            if verb == .get, !isValued, let given, ["true", "false"].contains(given) {
                if given == "true", parts[0] != "--continue" { words.append(parts[0]) }
                return
            }
            words.append(word)
            if isValued, given == nil, let next = rest.popFirst() { words.append(next) }
            return
        }
        try apply(option, parts[0], option.value == .required ? given ?? value(of: parts[0]) : given)
    }

    private mutating func replaceShort(_ word: String) throws {
        // wget has options of two letters: -nc.
        if word.utf8.count > 2, let option = option(word) {
            return try apply(option, word, option.value == .required ? value(of: word) : nil)
        }
        var letters = word.dropFirst()
        while let letter = letters.popFirst() {
            let name = "-\(letter)"
            if replaceProxy(name, letters) { return }
            if Self.shortOptionsWithValue[verb]!.contains(letter) {
                words.append(name)
                guard letters.isEmpty else {
                    // The parser would take a value that begins with a dash for an option.
                    if letters.hasPrefix("-"), letters != "-" {
                        words[words.count - 1] += letters
                    } else {
                        words.append(String(letters))
                    }
                    return
                }
                if let next = rest.popFirst() { words.append(next) }
                return
            }
            if verb == .get, letter == "s" || letter == "k", replaceParts(letter, letters) { return }
            if Self.shortFlags[verb]!.contains(letter) {
                words.append(name)
                continue
            }
            if verb == .get, name == "-O", let file = wgetOutput(letters) {
                words += ["-o", file]
                return
            }
            guard let option = option(name) else { return words.append("-\(letter)\(letters)") }
            guard option.value == .required else {
                try apply(option, name, nil)
                continue
            }
            return try apply(option, name, letters.isEmpty ? value(of: name) : String(letters))
        }
    }

    /// `-x` is a number of connections here and in aria2, and a proxy in curl. No proxy is a number.
    private mutating func replaceProxy(_ name: String, _ letters: Substring) -> Bool {
        guard verb == .get, name == "-x" else { return false }
        let value = letters.isEmpty ? rest.first ?? "" : String(letters)
        guard value.contains("://") || value.contains(":") else { return false }
        if letters.isEmpty { rest.removeFirst() }
        words += ["--proxy", value]
        return true
    }

    /// aria2's number of connections and its smallest part, which have a number. Curl's flags of these letters have no
    /// value, and a number is not a URL.
    private mutating func replaceParts(_ letter: Character, _ letters: Substring) -> Bool {
        let value = letters.isEmpty ? rest.first ?? "" : String(letters)
        guard ByteUnits.count(value) != nil else { return false }
        if letters.isEmpty { rest.removeFirst() }
        if letter == "s" { words += ["-x", value] }
        return true
    }

    /// The file of wget's `-O`: `-`, or a name before a URL. Curl's `-O` has no value, and saves no URL without a path.
    private mutating func wgetOutput(_ letters: Substring) -> String? {
        if letters == "-" { return "-" }
        guard letters.isEmpty, let next = rest.first else { return nil }
        let isName = !next.contains("/") && !next.hasPrefix("-") && rest.dropFirst().contains { $0.contains("://") }
        return next == "-" || isName ? rest.popFirst() : nil
    }

    private mutating func value(of name: String) throws -> String {
        guard let next = rest.popFirst() else { throw refusal("\(name) requires a value") }
        return next
    }

    private mutating func apply(_ option: ForeignOption, _ name: String, _ value: String?) throws {
        switch option.meaning {
        case .implied: break
        case .option(let own): words += [own, value ?? ""]
        case .flag(let own): if value != "false" { words.append(own) }
        case .header(let field): words += ["-H", "\(field): \(field == "Range" ? "bytes=" : "")\(value ?? "")"]
        case .argument: append(argument: value ?? "")
        case .refused(let sentence):
            if value == "false" { break }
            throw refusal("haul \(verb.rawValue) has no \(name): \(sentence)")
        case .special(let special): try apply(special, name, value ?? "")
        }
    }

    private mutating func apply(_ special: ForeignOption.Special, _ name: String, _ value: String) throws {
        switch special {
        case .remoteName: try checkNoValue(name, "-o FILE names the file, and without it a file gets the server's name")
        case .shortContinue:
            try checkNoValue(name, "--save-cookies FILE writes cookies, and an unfinished download is always continued")
        case .continueAt:
            guard value != "-" else { break }
            throw refusal(
                "\(name) \(value): an unfinished download is continued where its bytes are proven, not at a given offset: leave it out"
            )
        case .tries:
            guard let tries = Int(value), tries >= 0 else { throw refusal("\(name) must be a number, not \(value)") }
            words += ["--retries", String(tries == 0 ? 1000 : min(1000, tries - 1))]
        case .proto:
            let names = value.split { "=+,-".contains($0) }.map { $0.lowercased() }
            guard names.allSatisfy(["http", "https"].contains) else {
                throw refusal("\(name) \(value): http and https are the only protocols")
            }
        case .noProxyFor:
            guard value == "*" else {
                throw refusal("\(name): set the variable no_proxy=\(value), or give --no-proxy for no proxy at all")
            }
            words.append("--no-proxy")
        case .allowOverwrite: if value != "false" { words += ["--if-exists", "overwrite"] }
        case .autoRenaming: if value != "false" { words += ["--if-exists", "rename"] }
        case .checkCertificate:
            guard value == "false", let option = option("-k") else { break }
            try apply(option, name, nil)
        case .form:
            guard let equals = value.firstIndex(of: "=") else {
                throw refusal("\(name) \(value) must have the form NAME=VALUE")
            }
            let content = value[value.index(after: equals)...]
            if content.hasPrefix("@") {
                // The name of a file's field is "file", as nearly all servers have it.
                guard value[..<equals] == "file", !content.contains(";") else {
                    throw refusal("\(name) \(value): haul call -F names a file's field; haul put --form calls it file")
                }
                words += ["--form", String(content.dropFirst())]
            } else {
                words += ["--field", value]
            }
        case .rawData:
            guard !value.hasPrefix("@") else {
                throw refusal("\(name) \(value): -d would read a file; echo it into -d @- instead")
            }
            words += ["--data", value]
        case .followMetalink: if value == "false" { words.append("--no-follow-metalink") }
        case .skipExisting: words += ["--if-exists", "skip"]
        case .timeout:
            guard Double(value) != nil else {
                throw refusal("haul get has no \(name): haul put FILE URL uploads a file")
            }
            words += ["--timeout", value]
        case .netrc: throw refusal("\(name) is --netrc in curl and --no-netrc in aria2: give --netrc, or nothing")
        case .socks: words += ["--proxy", "socks5h://\(value)"]
        }
    }

    /// wget's `-O` and curl's `-c` name a file. curl's `-O` and wget's `-c` stand alone, and so they do here.
    private func checkNoValue(_ name: String, _ advice: String) throws {
        guard let next = rest.first, !next.contains("://"), rest.dropFirst().contains(where: { $0.contains("://") }),
            !next.hasPrefix("-") || next == "-"
        else { return }
        throw refusal("\(name) takes no file, and \(MaskedURL.keepingQuery(next)) follows it: \(advice)")
    }

    private func refusal(_ sentence: String) -> ExitStatus { .printing(.usage, sentence) }
}
