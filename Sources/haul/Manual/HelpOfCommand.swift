import HaulContract

/// A command as `--experimental-dump-help` describes it.
struct HelpOfCommand {
    let name: String
    let abstract: String
    let discussion: String
    let isShown: Bool
    let arguments: [HelpOfArgument]
    let subcommands: [HelpOfCommand]

    init(_ json: JSON) {
        name = json["commandName"]?.string ?? ""
        abstract = json["abstract"]?.string ?? ""
        discussion = json["discussion"]?.string ?? ""
        isShown = json["shouldDisplay"] != .bool(false)
        arguments = (json["arguments"]?.array ?? []).filter { $0["shouldDisplay"] != .bool(false) }
            .map(HelpOfArgument.init)
        subcommands = (json["subcommands"]?.array ?? []).map(HelpOfCommand.init)
    }

    /// The synopsis in roff: first the options, then the positional arguments.
    var synopsis: String {
        let named = arguments.filter { !$0.isPositional }.map(\.usage)
        let positional = arguments.filter(\.isPositional).map(\.usage)
        return (["\\fB\(Roff.escaped(name))\\fR"] + named + positional).joined(separator: " ")
    }

    /// A sentence as the line under NAME has it: without a capital letter and a full stop.
    static func uncapitalized(_ text: String) -> String {
        let sentence = text.hasSuffix(".") ? String(text.dropLast()) : text
        return sentence.prefix(1).lowercased() + sentence.dropFirst()
    }
}

/// An argument as `--experimental-dump-help` describes it.
struct HelpOfArgument {
    let abstract: String
    /// The title of its group in the help; nil for the group of options without a title.
    let group: String?
    let isPositional: Bool
    let longName: String?
    private let isOptional: Bool
    private let isRepeating: Bool
    private let isFlag: Bool
    private let value: String
    private let names: [String]
    private let defaultValue: String?

    init(_ json: JSON) {
        abstract = json["abstract"]?.string ?? ""
        group = json["sectionTitle"]?.string
        isPositional = json["kind"]?.string == "positional"
        isFlag = json["kind"]?.string == "flag"
        isOptional = json["isOptional"] == .bool(true)
        isRepeating = json["isRepeating"] == .bool(true)
        value = json["valueName"]?.string ?? ""
        let all = json["names"]?.array ?? []
        names = all.compactMap { name in
            name["name"]?.string.map { name["kind"]?.string == "long" ? "--\($0)" : "-\($0)" }
        }
        longName = all.first { $0["kind"]?.string == "long" }?["name"]?.string
        defaultValue = json["defaultValue"]?.string
    }

    /// The description in a list of options.
    var text: String { defaultValue.map { "\(abstract) Default: \($0)." } ?? abstract }

    /// The names and the value's placeholder in a list of options, in roff.
    var label: String {
        if isPositional { return "\\fI\(Roff.escaped(value))\\fR" }
        let list = names.map { "\\fB\(Roff.escaped($0))\\fR" }.joined(separator: ", ")
        return isFlag ? list : list + " \\fI\(Roff.escaped(value))\\fR"
    }

    /// The argument in a synopsis, in roff.
    var usage: String {
        let name = longName.map { "--\($0)" } ?? names.last ?? ""
        var text = isPositional ? "\\fI\(Roff.escaped(value))\\fR" : "\\fB\(Roff.escaped(name))\\fR"
        if !isPositional, !isFlag { text += " \\fI\(Roff.escaped(value))\\fR" }
        if isRepeating { text += " ..." }
        return isOptional ? "[" + text + "]" : text
    }
}
