import Foundation
import HaulTestSupport
import Testing

/// Checks what docs/contributing/ and the README.md files of Sources/ say about files and imports.
@Suite struct ArchitectureTests {
    private static let repository = Pages.repository

    private static func pages() throws -> String {
        try Pages.names.filter { $0.hasPrefix("docs/contributing/") }.map(Pages.text).joined(separator: "\n")
    }

    @Test("each file that the pages for contributors name exists") func files() throws {
        let texts = try Self.pages() + Pages.designs.map(Pages.text).joined(separator: "\n")
        let named = texts.matches(of: /`((?:[\w+.\-]+\/)+[\w+.\-]+\.[a-z]+)`/).map { String($0.1) }
        #expect(!named.isEmpty)
        for name in Set(named).sorted() {
            let exists = ["Sources", "."].contains { folder in
                FileManager.default.fileExists(atPath: Self.repository.appending(path: "\(folder)/\(name)").path)
            }
            #expect(exists, "\(name)")
        }
    }

    @Test("each module imports what the table says, and only modules below it") func moduleImports() throws {
        let rows = try Self.pages().matches(of: /\n\| `(\w+)` \| [^|]* \| ([\w, ]+) \|(?=\n)/).map { match in
            (
                name: String(match.1),
                imports: match.2 == "nothing" ? [] : match.2.split(separator: ", ").map(String.init)
            )
        }
        #expect(try Set(rows.map(\.name)) == Set(Self.modules()))
        for (index, row) in rows.enumerated() {
            let imported = try Self.imports(of: row.name)
            #expect(imported == Set(row.imports), "\(row.name)")
            #expect(imported.isSubset(of: rows[(index + 1)...].map(\.name)), "\(row.name) imports a module above it")
        }
    }

    @Test("each module has a README.md, to which the overview links, and one page has all C libraries")
    func designs() throws {
        let overview = try Pages.text("docs/contributing/architecture.md")
        for module in try Self.modules() {
            let page = "Sources/\(module)/README.md"
            #expect(Pages.designs.contains(page), "\(page)")
            #expect(overview.contains("](../../\(page))"), "\(page)")
        }
        let page = try Pages.text("Sources/CLinux/README.md")
        for library in try Self.folders().filter(Self.isLibrary) {
            #expect(page.contains("\n| `\(library)` | "), "\(library)")
        }
    }

    @Test("each page in a subfolder of a module is linked from another page beside the code") func subpages() throws {
        for page in Pages.designs where page.split(separator: "/").count > 3 {
            let others = try Pages.designs.filter { $0 != page }.map { name in
                let folder = URL(filePath: "/" + name).deletingLastPathComponent()
                return try Pages.text(name).matches(of: /\]\(([^)#\s]+README\.md)/).map {
                    folder.appending(path: String($0.1)).standardized.path
                }
            }
            #expect(others.contains { $0.contains("/" + page) }, "no page links to \(page)")
        }
    }

    private static func folders() throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: repository.appending(path: "Sources").path)
    }

    /// A folder whose name begins with C is a C library, except for Contract.
    private static func isLibrary(_ folder: String) -> Bool { folder.first == "C" && folder != "Contract" }

    private static func modules() throws -> [String] {
        try folders().filter { !isLibrary($0) && $0 != "PythonClient" }
    }

    private static func imports(of module: String) throws -> Set<String> {
        let folder = repository.appending(path: "Sources/\(module)")
        var result: Set<String> = []
        for case let file as URL in FileManager.default.enumerator(at: folder, includingPropertiesForKeys: nil)
            ?? .init()
        where file.pathExtension == "swift" {
            let text = "\n" + (try String(contentsOf: file, encoding: .utf8))
            for match in text.matches(of: /\n(?:[@\w]+ )*import Haul(\w+)/) {
                // Only HaulClient itself has the prefix in the name of its folder.
                result.insert(match.1 == "Client" ? "HaulClient" : String(match.1))
            }
        }
        return result
    }
}
