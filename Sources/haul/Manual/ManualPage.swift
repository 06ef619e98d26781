import HaulContract

/// A manual page in the macros of man(7), which man-db and mandoc read.
struct ManualPage {
    /// `haul-push`.
    let name: String
    let text: String

    /// The page of `haul`, and one for each of its commands.
    ///
    /// - Parameter command: The output of `--experimental-dump-help`.
    static func pages(of command: JSON, version: String, date: String) -> [ManualPage] {
        let root = HelpOfCommand(command)
        let verbs = root.subcommands.filter { $0.isShown && $0.name != "help" }
        let foot = "\"\(date)\" \"Haul \(version)\" \"Haul\""
        return [main(root, verbs, foot)] + verbs.map { page(of: $0, foot) }
    }

    private static func main(_ root: HelpOfCommand, _ verbs: [HelpOfCommand], _ foot: String) -> ManualPage {
        var page = Roff()
        page.raw(".TH HAUL 1 \(foot)")
        page.section("NAME")
        page.raw(Roff.escaped("haul - \(HelpOfCommand.uncapitalized(root.abstract))"))
        page.section("SYNOPSIS")
        page.raw(".B haul\n.I command\n.RI [ options ]")
        page.section("DESCRIPTION")
        page.paragraph("Each command has a page of its own, like haul\u{2011}push(1).")
        page.section("COMMANDS")
        for verb in verbs { page.item("\\fB\(Roff.escaped(verb.name))\\fR", verb.abstract) }
        page.section("OPTIONS")
        for option in root.arguments { page.item(option.label, option.text) }
        let variables = variables(in: verbs)
        if !variables.isEmpty {
            page.section("ENVIRONMENT")
            for (variable, options) in variables {
                let list = options.map { "--\($0)" }.joined(separator: " or ")
                page.item("\\fB\(variable)\\fR", "The value of \(list) if the option is not given.")
            }
            page.item("\\fBNO_COLOR\\fR", "If it is set and not empty, nothing is coloured.")
        }
        page.section("EXIT STATUS")
        page.paragraph(root.discussion)
        page.section("SEE ALSO")
        page.raw(verbs.map { ".BR haul\\-\(Roff.escaped($0.name)) (1)" }.joined(separator: " ,\n"))
        return ManualPage(name: "haul", text: page.text)
    }

    private static func page(of verb: HelpOfCommand, _ foot: String) -> ManualPage {
        var page = Roff()
        page.raw(".TH HAUL\\-\(Roff.escaped(verb.name.uppercased())) 1 \(foot)")
        page.section("NAME")
        page.raw(Roff.escaped("haul-\(verb.name) - \(HelpOfCommand.uncapitalized(verb.abstract))"))
        let parts = verb.subcommands.filter { $0.isShown && $0.name != "help" }
        page.section("SYNOPSIS")
        for (index, synopsis) in (parts.isEmpty ? [verb.synopsis] : parts.map { verb.name + " " + $0.synopsis })
            .enumerated()
        {
            page.raw((index == 0 ? "" : ".br\n") + "\\fBhaul\\fR " + synopsis)
        }
        page.section("DESCRIPTION")
        page.paragraph(verb.abstract)
        if !verb.discussion.isEmpty { page.paragraph(verb.discussion) }
        if parts.isEmpty {
            page.section("OPTIONS")
            for argument in verb.arguments { page.item(argument.label, argument.text) }
        } else {
            page.section("COMMANDS")
            for part in parts {
                page.raw(".SS haul \(Roff.escaped(verb.name)) \(Roff.escaped(part.name))")
                page.paragraph([part.abstract, part.discussion].filter { !$0.isEmpty }.joined(separator: " "))
                for argument in part.arguments { page.item(argument.label, argument.text) }
            }
        }
        page.section("SEE ALSO")
        page.raw(".BR haul (1)")
        return ManualPage(name: "haul-\(verb.name)", text: page.text)
    }

    /// The environment variables that help texts name in brackets, each with its options.
    private static func variables(in verbs: [HelpOfCommand]) -> [(String, [String])] {
        var result: [String: Set<String>] = [:]
        for argument in verbs.flatMap({ [$0] + $0.subcommands }).flatMap(\.arguments) {
            guard let start = argument.abstract.firstRange(of: "[HAUL_"), let name = argument.longName else { continue }
            let variable = argument.abstract[start.lowerBound...].dropFirst().prefix { $0 == "_" || $0.isUppercase }
            result[String(variable), default: []].insert(name)
        }
        return result.sorted { $0.key < $1.key }.map { ($0.key, $0.value.sorted()) }
    }
}
