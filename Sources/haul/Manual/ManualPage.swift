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
            list(verb.arguments, in: &page)
        } else {
            page.section("COMMANDS")
            for part in parts {
                page.raw(".SS haul \(Roff.escaped(verb.name)) \(Roff.escaped(part.name))")
                page.paragraph([part.abstract, part.discussion].filter { !$0.isEmpty }.joined(separator: " "))
                for argument in part.arguments { page.item(argument.label, argument.text) }
            }
        }
        if verb.name == "get" {
            page.section("LISTS")
            page.paragraph(listFormat)
        }
        if let examples = examples[verb.name] {
            page.section("EXAMPLES")
            for (command, meaning) in examples { page.item("\\fB\(Roff.escaped(command))\\fR", meaning) }
        }
        page.section("EXIT STATUS")
        for (status, meaning) in statuses(of: verb.name) { page.item("\\fB\(status)\\fR", meaning) }
        page.section("SEE ALSO")
        page.raw(".BR haul (1)")
        return ManualPage(name: "haul-\(verb.name)", text: page.text)
    }

    /// The options in the groups of the help: first those without a title.
    private static func list(_ arguments: [HelpOfArgument], in page: inout Roff) {
        var titles: [String?] = [nil]
        for argument in arguments where !titles.contains(argument.group) { titles.append(argument.group) }
        for title in titles {
            if let title { page.raw(".SS \(Roff.escaped(title))") }
            for argument in arguments where argument.group == title { page.item(argument.label, argument.text) }
        }
    }

    private static let listFormat = """
        A list for -i has a URL on each line, or a JSON object with the fields of a job, such as \
        {"url":"https://example.org/a.bin","path":"films/a.bin"}. Several URLs with tabs between them are mirrors of one \
        file. An indented line below a URL has an option of aria2, such as out=NAME, dir=DIRECTORY or checksum=sha-256=HEX. \
        Empty lines and lines that begin with # are ignored.
        """

    /// Commands that are often needed, with what they do.
    private static let examples: [String: [(command: String, meaning: String)]] = [
        "get": [
            ("haul get https://example.org/a.iso", "Download a file into the current directory."),
            ("haul get -i list.txt -d films -j 10", "Download the files of a list, ten at a time, into films."),
            ("haul get --continue", "Continue what was interrupted in this directory."),
        ],
        "put": [("haul put a.bin https://example.org/inbox/", "Upload a file as inbox/a.bin.")],
        "push": [
            (
                "haul push https://example.org/a.iso --wait",
                "Queue a download, and show its progress until it has ended."
            ),
            ("haul push - --batch night < urls.txt", "Queue the jobs of a list as one batch."),
        ],
        "list": [
            ("haul list --by error", "Count the failed jobs by error, with the newest example of each."),
            ("haul list --state running --sort speed", "Show which downloads are the fastest."),
        ],
        "show": [("haul show 'https://example.org/a.iso?sig=1'", "Show the jobs of a URL.")],
        "watch": [("haul watch --batch night", "Follow the jobs of a batch that have not ended.")],
        "pause": [("haul pause --host example.org", "Pause all jobs of a host.")],
        "resume": [("haul resume --all", "Resume all paused jobs.")],
        "cancel": [("haul cancel --state queued --older 1d", "Cancel what has waited for more than a day.")],
        "retry": [("haul retry --error 'http_5*'", "Run the jobs again that failed because of their servers.")],
        "remove": [("haul remove --state failed --host example.org --yes", "Forget the failures of a host.")],
        "worker": [("haul worker --root /srv/files --slots 50", "Run up to 50 jobs at once.")],
    ]

    private static func statuses(of verb: String) -> [(status: String, meaning: String)] {
        let local = ["get", "put"].contains(verb)
        return [
            ("0", local ? "All files are there." : "The command did what it says."),
            ("1", local ? "A file is missing." : "A job failed or is not known, or a check found something."),
            ("2", "The arguments or settings are wrong. Nothing was done."),
        ] + (local ? [] : [("3", "Redis cannot be reached, or refuses.")])
            + [("130", "The command was interrupted.")]
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
