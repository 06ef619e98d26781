import Foundation
import HaulTestSupport
import Testing

/// The links of the pages, which readers follow on a code host and in the installed package.
@Suite struct LinkTests {
    private static let others = [
        "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "Sources/PythonClient/README.md",
    ]

    @Test("each relative link leads to a file, and to a heading of it") func links() throws {
        var count = 0
        for name in Pages.names + Pages.designs + Self.others {
            let text = Self.withoutCode(try Pages.text(name))
            for match in text.matches(of: /\]\(([^)\s]+)\)/) where !match.1.contains(/^[a-z]+:/) {
                count += 1
                let parts = match.1.split(separator: "#", maxSplits: 1, omittingEmptySubsequences: false)
                let page = URL(filePath: "/" + name).deletingLastPathComponent()
                let target = parts[0].isEmpty ? URL(filePath: "/" + name) : page.appending(path: String(parts[0]))
                let path = String(target.standardized.path.dropFirst())
                let exists = FileManager.default.fileExists(atPath: Pages.repository.appending(path: path).path)
                #expect(exists, "\(name): \(match.1)")
                guard exists, parts.count == 2, path.hasSuffix(".md") else { continue }
                #expect(try Self.headings(of: path).contains(String(parts[1])), "\(name): \(match.1)")
            }
        }
        #expect(count > 300)
    }

    @Test("each page of docs/ or Sources/ that a source file, a script or a message names exists")
    func mentions() async throws {
        // comparison.md names pages of other projects.
        let search = try ChildProcess(
            "git",
            [
                "-C", Pages.repository.path, "grep", "-IohE",
                #"docs/[a-z][A-Za-z/-]+\.(md|json|svg)|Sources/[A-Za-z/]+\.md"#, "--", ".",
                ":!docs/evaluate/comparison.md",
            ])
        _ = try await search.wait()
        let names = search.standardOutput.split(separator: "\n").map(String.init)
        #expect(names.count > 100)
        for name in Set(names).sorted() {
            let path = Pages.repository.appending(path: name).path
            #expect(FileManager.default.fileExists(atPath: path), "\(name) does not exist")
        }
    }

    @Test("no page for readers has more than 420 lines, unless it is generated") func lengths() throws {
        for name in Pages.names {
            let text = try Pages.text(name)
            guard !text.hasPrefix("<!-- Generated") else { continue }
            #expect(text.split(separator: "\n", omittingEmptySubsequences: false).count <= 420, "\(name)")
        }
    }

    @Test("no page beside the code has more than 120 lines, and the overview has at most 280")
    func designLengths() throws {
        for name in Pages.designs {
            let lines = try Pages.text(name).count { $0 == "\n" }
            #expect((15...120).contains(lines), "\(name)")
        }
        #expect(try Pages.text("docs/contributing/architecture.md").count { $0 == "\n" } <= 280)
    }

    private static func withoutCode(_ text: String) -> String {
        text.replacing(/```[\s\S]*?```/, with: "").replacing(/`[^`\n]*`/, with: "")
    }

    /// The anchors that a code host makes of the headings of a page.
    private static func headings(of name: String) throws -> Set<String> {
        var seen: [String: Int] = [:]
        var result: Set<String> = []
        let text = try Pages.text(name).replacing(/```[\s\S]*?```/, with: "")
        for match in text.matches(of: /^#+ (.+)$/.anchorsMatchLineEndings()) {
            let plain = match.1.replacing(/\[([^\]]*)\]\([^)]*\)/) { $0.1 }
            let kept = plain.lowercased().filter { $0.isLetter || $0.isNumber || "_- ".contains($0) }
            let anchor = kept.replacing(" ", with: "-")
            let number = seen[anchor, default: 0]
            seen[anchor] = number + 1
            result.insert(number == 0 ? anchor : "\(anchor)-\(number)")
        }
        return result
    }
}
