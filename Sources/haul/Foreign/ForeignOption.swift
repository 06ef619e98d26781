/// An option of curl, wget, wget2 or aria2 that `haul get`, `put` and `call` understand, although it is not theirs.
struct ForeignOption: Sendable {
    enum Verb: String, Sendable, CaseIterable { case get, put, call }

    enum Value: Sendable, Equatable {
        case none, required
        /// Only after "=", as flags of aria2 have it: `--continue=true`. Without a value it is true.
        case optional
    }

    enum Meaning: Sendable {
        /// We do that without an option, or it cannot matter here.
        case implied
        /// The same as this option of ours, with the same value.
        case option(String)
        /// The same as this flag of ours, unless the value is "false".
        case flag(String)
        /// A header field with this name.
        case header(String)
        /// The value stands for itself, as an argument without a name.
        case argument
        case special(Special)
        /// We do not have it. The sentence names our way.
        case refused(String)
    }

    /// Options whose value decides what they mean.
    enum Special: Sendable {
        case remoteName, shortContinue, continueAt, tries, proto, noProxyFor, allowOverwrite, autoRenaming
        case checkCertificate, form, rawData, netrc, socks, timeout, skipExisting, followMetalink
    }

    let names: [String]
    let value: Value
    let meaning: Meaning
    /// The commands that understand it.
    let verbs: [Verb]

    init(_ names: String, _ value: Value = .none, _ meaning: Meaning, in verbs: Verb...) {
        self.names = names.split(separator: " ").map(String.init)
        (self.value, self.meaning) = (value, meaning)
        self.verbs = verbs.isEmpty ? Verb.allCases : verbs
    }

    /// What the documentation says that the option does.
    var effect: String {
        switch meaning {
        case .implied: "accepted without effect"
        case .option(let name), .flag(let name): "as `\(name)`"
        case .header(let name): "as `-H \"\(name): …\"`"
        case .argument: "its value is an argument"
        case .refused(let sentence): "refused: \(sentence)"
        case .special(let special): special.effect
        }
    }
}

extension ForeignOption.Special {
    var effect: String {
        switch self {
        case .remoteName:
            "accepted, because a file gets the server's name unless `-o` gives another; `-O NAME` before a URL, as in wget, as `-o`"
        case .shortContinue: "accepted, because an unfinished download is always continued"
        case .continueAt: "`-` is accepted, because an unfinished download is always continued; a number is refused"
        case .tries: "as `--retries`, which does not count the first attempt; 0 means 1000"
        case .proto: "accepted for http and https, the only schemes there are"
        case .noProxyFor: "`*` as `--no-proxy`; hosts belong into the variable `no_proxy`"
        case .allowOverwrite: "true as `--if-exists overwrite`"
        case .autoRenaming: "true as `--if-exists rename`"
        case .checkCertificate: "true is accepted, because it is always so; false is refused like `-k`"
        case .form: "`NAME=@FILE` sends the file in a form, `NAME=VALUE` a field as `--field`"
        case .rawData: "as `--data`, unless the value begins with `@`"
        case .skipExisting: "as `--if-exists skip`"
        case .timeout: "a number as `--timeout`; a file is refused: `haul put FILE URL` uploads it"
        case .followMetalink: "false as `--no-follow-metalink`; otherwise it is so"
        case .netrc: "refused: it is `--netrc` in curl and `--no-netrc` in aria2"
        case .socks: "as `--proxy socks5h://HOST:PORT`"
        }
    }
}
