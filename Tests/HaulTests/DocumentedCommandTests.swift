import Foundation
import HaulTestSupport
import Testing

/// Commands of the docs that no block runs. Their verbs and options must exist.
@Suite struct DocumentedCommandTests {
    @Test("each haul command of the docs has existing verbs and options")
    func verbsAndOptions() async throws {
        var helps: [[String]: String] = [:]
        func help(_ path: [String]) async throws -> String? {
            if let known = helps[path] { return known }
            let haul = try ChildProcess("haul", path + ["--help"])
            guard try await haul.wait() == 0 else { return nil }
            helps[path] = haul.standardOutput
            return haul.standardOutput
        }
        var options = 0
        for (page, command) in try Self.commands() {
            // A quoted argument may be a command with options of its own.
            let words = command.replacing(/'[^']*'/, with: "''").split(separator: " ").dropFirst().map(String.init)
            var path: [String] = []
            var text = try await help([]) ?? ""
            for word in words.prefix(2) where !word.hasPrefix("-") {
                let isListed = text.contains(try Regex("\n  (\(NSRegularExpression.escapedPattern(for: word)))[ \n]"))
                if !isListed {
                    #expect(!path.isEmpty, "\(page): haul has no command \(word): \(command)")
                    break
                }
                path.append(word)
                text += try await help(path) ?? ""
            }
            // `haul web` is short for `haul web serve`.
            if path == ["web"] { text += try await help(["web", "serve"]) ?? "" }
            for word in words {
                guard let option = word.prefixMatch(of: /--[a-z][a-z0-9-]*/)?.output else { continue }
                options += 1
                #expect(
                    text.contains(try Regex(option + "[^a-z0-9-]")), "\(page): no option \(option): \(command)")
            }
        }
        #expect(options > 50)
    }

    /// The commands of each page, in blocks and in sentences.
    private static func commands() throws -> [(page: String, command: String)] {
        var result: [(String, String)] = []
        for page in Pages.names where !page.hasPrefix("docs/contributing/architecture") {
            let text = try Pages.text(page)
            let block = /^(?:    )?(?:\$ |sudo )?(haul [^|;>&#…\n]*)/.anchorsMatchLineEndings()
            let sentence = /(?:^|[^`])`(haul [^`|;>&#…]+)[^`]*`/
            result += text.matches(of: block).map { (page, String($0.1)) }
            result += text.matches(of: sentence).map {
                (page, $0.1.split(whereSeparator: \.isWhitespace).joined(separator: " "))
            }
        }
        return result
    }
}
