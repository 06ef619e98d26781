import ArgumentParser
import Glibc
import HaulContract
import HaulTerminal

/// The manual pages, made from the texts of `--help`.
struct Manual: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "manual", abstract: "Print a manual page, or write all of them into a directory.",
        discussion: "haul manual push | man -l - shows a page. The pages are made from the same texts as --help.")
    @Argument(help: "A command; without one, the page of haul itself.", completion: .list(Haul.verbs))
    var command: String?
    @Option(
        help: "Write all pages into this existing directory: haul.1, haul-push.1 and so on.",
        completion: .directory)
    var directory: String?

    func validate() throws {
        guard command == nil || directory == nil else {
            throw ValidationError("--directory writes all pages: give no command beside it.")
        }
    }

    func run() throws {
        let pages = try Self.pages()
        if let directory {
            for page in pages { try Self.write(page.text, to: directory + "/" + page.name + ".1") }
            return
        }
        let name = command.map { "haul-\($0)" } ?? "haul"
        guard let page = pages.first(where: { $0.name == name }) else {
            throw ExitStatus.printing(
                .usage, "\"\(command ?? "")\" is not a command and has no manual page; haul --help lists the commands")
        }
        Terminal.write(page.text)
    }

    /// One page for `haul`, and one for each of its verbs.
    static func pages() throws -> [ManualPage] {
        let command = try JSON(Haul._dumpHelp())["command"]
        guard let command else { throw ExitStatus.printing(.jobFailed, "the help of haul cannot be read") }
        return ManualPage.pages(of: command, version: Version.text, date: date)
    }

    /// The date that SOURCE_DATE_EPOCH gives (https://reproducible-builds.org/specs/source-date-epoch/), else today.
    private static var date: String {
        var seconds = Environment.text("SOURCE_DATE_EPOCH").flatMap { time_t($0) } ?? time(nil)
        var parts = tm()
        gmtime_r(&seconds, &parts)
        func two(_ number: Int32) -> String { number < 10 ? "0\(number)" : "\(number)" }
        return "\(parts.tm_year + 1900)-\(two(parts.tm_mon + 1))-\(two(parts.tm_mday))"
    }

    private static func write(_ text: String, to path: String) throws {
        guard let file = fopen(path, "w") else {
            throw ExitStatus.printing(.usage, "\(path) cannot be written: \(String(cString: strerror(errno)))")
        }
        let isWritten = fputs(text, file) >= 0
        guard fclose(file) == 0, isWritten else {
            throw ExitStatus.printing(.jobFailed, "\(path) cannot be written: \(String(cString: strerror(errno)))")
        }
    }
}
