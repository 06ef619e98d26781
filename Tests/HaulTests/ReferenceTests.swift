import Foundation
import HaulActivities
import HaulBus
import HaulContract
import HaulMetrics
import HaulTestSupport
import Testing

@testable import HaulWeb
@testable import haul

/// The parts of docs/ that are made from the code. A part stands between the lines `<!-- generated: NAME -->` and
/// `<!-- end -->`. `HAUL_WRITE_PAGES=1 swift test --filter ReferenceTests` writes all of them anew.
@Suite struct ReferenceTests {
    @Test("the generated parts of the pages are what the code says, and each part is on one page")
    func pages() async throws {
        let parts = try await Self.parts()
        var found: [String] = []
        for name in Pages.names {
            let text = try Pages.text(name)
            let current = text.replacing(/<!-- generated: (.+) -->\n[\s\S]*?<!-- end -->/) { match in
                found.append(String(match.1))
                return "<!-- generated: \(match.1) -->\n\n\(parts[String(match.1)] ?? "no such part")\n\n<!-- end -->"
            }
            if current != text, ProcessInfo.processInfo.environment["HAUL_WRITE_PAGES"] != nil {
                try Data(current.utf8).write(to: Pages.repository.appending(path: name))
            } else {
                #expect(current == text, "\(name) is not what the code says")
            }
            if text.contains("<!-- generated: ") {
                #expect(text.hasPrefix("<!-- Generated in part"), "\(name) does not say so in its first line")
            }
        }
        #expect(found.sorted() == parts.keys.sorted())
    }

    @Test(
        "the page on performance shows the figures that were measured", arguments: ["performance", "performance-more"])
    func figures(_ name: String) async throws {
        let script = Pages.repository.appending(path: "Tests/bench/render.py").path
        let figures = Pages.repository.appending(path: "docs/evaluate/\(name).json").path
        let check = try ChildProcess("python3", ["-B", script, figures, "--check"])
        #expect(try await check.wait() == 0, "\(check.standardError)")
    }

    private static func parts() async throws -> [String: String] {
        let help = try ChildProcess("haul", ["--experimental-dump-help"])
        try #require(try await help.wait() == 0)
        let haul = try #require(try JSON(help.standardOutput)["command"])
        let worker = try #require(haul["subcommands"]?.array?.first { $0["commandName"]?.string == "worker" })
        return [
            "fields": try fields(), "errors": try errors(), "api errors": apiErrors, "queue settings": try settings(),
            "worker metrics": metrics(Metric.workerMetrics), "queue metrics": metrics(Metric.queueMetrics),
            "worker options": options(of: worker, isSettings: true), "commands": commands(of: haul, "haul"),
            "foreign options": foreignOptions(),
        ]
    }

    private static func table(_ head: [String], _ rows: [[String]]) -> String {
        ([head, head.map { _ in "---" }] + rows).map { row in
            "| " + row.map { text($0).replacing("|", with: "\\|") }.joined(separator: " | ") + " |"
        }.joined(separator: "\n")
    }

    /// A text in which no code host sees the tags of HTML.
    private static func text(_ text: String) -> String {
        text.contains("`") ? text : text.replacing("<", with: "\\<")
    }

    /// The end of a sentence as a sentence.
    private static func sentence(_ text: String) -> String {
        text.prefix(1).uppercased() + text.dropFirst() + (text.hasSuffix(".") ? "" : ".")
    }

    // MARK: Fields

    private static func fields() throws -> String {
        let schema = try JSON(Pages.text("docs/reference/schema/element.json"))
        let described = try #require(schema["$defs"]?["job"]?["properties"]?.members)
        let known = try described.map { member in (try #require(JobField.byName[member.name]), member.value) }
        let overview = table(
            ["field", "kinds", "default"],
            known.map { field, schema in
                ["[`\(field.name)`](#\(field.name))", kinds(field), schema["default"].map { "`\($0.text)`" } ?? ""]
            })
        let sections = known.map { field, schema in
            """
            ### `\(field.name)`

            \(schema["description"]?.string ?? "")

            \(sentence(field.rule)) For example `\(schema["examples"]?.array?.first?.text ?? "")`.
            """
        }
        return ([overview] + sections).joined(separator: "\n\n")
    }

    private static func kinds(_ field: JobField) -> String {
        field.kinds.count == Job.Kind.allCases.count
            ? "all" : Job.Kind.allCases.filter(field.kinds.contains).map(\.rawValue).joined(separator: ", ")
    }

    // MARK: Error codes

    private static func errors() throws -> String {
        let source = try Pages.text("Sources/Contract/ErrorCode.swift")
        let retried = (400...599).filter { RetryPolicy.isRetryable(.http($0)) }.map(String.init)
        var rows = [
            [
                "`http_NNN`", "The server answered with this status, which the job does not expect.",
                "Correct the URL, the credentials or the request.", retried.joined(separator: ", "),
            ]
        ]
        let codes = source.matches(
            of: /((?:    \/\/\/.*\n)+)    public static let \w+ = ErrorCode\(rawValue: "(\w+)"\)/)
        for match in codes {
            let paragraphs = String(match.1).replacing("    ///", with: "").components(separatedBy: "\n\n")
            try #require(paragraphs.count == 2, "\(match.2) does not say what to do")
            let cells = paragraphs.map { text in
                text.split(whereSeparator: \.isWhitespace).joined(separator: " ")
                    .replacing(/``Job\/(\w+)``/) { "`\(snakeCase(String($0.1)))`" }
            }
            let code = String(match.2)
            rows.append(["`\(code)`"] + cells + [RetryPolicy.isRetryable(ErrorCode(rawValue: code)) ? "yes" : "no"])
        }
        #expect(rows.count > 25)
        return table(["code", "what happened", "what to do", "retried"], rows)
    }

    private static var apiErrors: String {
        table(
            ["status", "`error`", "what it means", "what to do"],
            APIError.Code.allCases.map { code in
                let (meaning, remedy) = code.explanation
                return [code.statuses.map(String.init).joined(separator: ", "), "`\(code.rawValue)`", meaning, remedy]
            })
    }

    private static func snakeCase(_ name: String) -> String {
        name.replacing(/[A-Z]/) { "_" + $0.0.lowercased() }
    }

    // MARK: Settings of a queue

    private static func settings() throws -> String {
        let api = try JSON(Pages.text("Sources/Web/Page/openapi.json"))
        let described = try #require(api["components"]?["schemas"]?["SettingsChange"]?["properties"])
        return table(
            ["setting", "value", "effect"],
            QueueSetting.fixed.map { setting in
                ["`\(setting.name)`", sentence(setting.rule), described[setting.name]?["description"]?.string ?? ""]
            } + [
                [
                    "`quiet:<worker>`", sentence(QueueSetting.quiet(worker: "w").rule),
                    "1: this worker claims no more jobs of this queue, and finishes those that it has.",
                ]
            ])
    }

    // MARK: Metrics

    private static func metrics(_ metrics: [Metric]) -> String {
        table(
            ["name", "type", "labels", "meaning"],
            metrics.map { metric in
                [
                    "`\(metric.name)`", metric.kind.rawValue,
                    metric.labels.map { "`\($0)`" }.joined(separator: ", "), metric.help,
                ]
            })
    }

    // MARK: Commands

    /// - Parameter isSettings: Whether each option has a variable of its own.
    private static func options(of command: JSON, isSettings: Bool = false) -> String {
        let shown = (command["arguments"]?.array ?? []).filter {
            $0["shouldDisplay"] != .bool(false) && $0["valueName"]?.string != "help"
                && $0["valueName"]?.string != "version"
        }
        guard !shown.isEmpty else { return "It has no options." }
        let rows = shown.map { argument in
            let names = (argument["names"]?.array ?? []).map { name in
                let dashes = name["kind"]?.string == "long" ? "--" : "-"
                return "`\(dashes)\(name["name"]?.string ?? "")`"
            }
            let value = argument["valueName"]?.string ?? ""
            let label = names.isEmpty ? "`\(value.uppercased())`" : names.joined(separator: ", ")
            let text = argument["abstract"]?.string ?? ""
            return [label, text, argument["defaultValue"]?.string.map { "`\($0)`" } ?? ""]
        }
        return table([isSettings ? "option" : "option or argument", "meaning", "default"], rows)
    }

    /// The options of other programs that our commands understand.
    private static func foreignOptions() -> String {
        table(
            ["option", "commands", "effect"],
            ForeignOption.all.map { option in
                [
                    option.names.map { "`\($0)`" }.joined(separator: ", "),
                    option.verbs.count == ForeignOption.Verb.allCases.count
                        ? "all" : option.verbs.map(\.rawValue).joined(separator: ", "),
                    option.effect,
                ]
            })
    }

    private static func commands(of command: JSON, _ path: String) -> String {
        let shown = (command["subcommands"]?.array ?? []).filter {
            $0["shouldDisplay"] != .bool(false) && $0["commandName"]?.string != "help"
        }
        var sections: [String] = []
        for each in shown {
            let name = path + " " + (each["commandName"]?.string ?? "")
            var section = "## `\(name)`\n\n\(each["abstract"]?.string ?? "")"
            if let more = each["discussion"]?.string { section += "\n\n" + text(more) }
            section += "\n\n" + options(of: each)
            sections.append(section)
            let below = commands(of: each, name)
            if !below.isEmpty { sections.append(below) }
        }
        return sections.joined(separator: "\n\n")
    }
}
