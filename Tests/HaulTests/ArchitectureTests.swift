import Foundation
import HaulTestSupport
import Testing

/// Checks the statements of docs/contributing/ about files and imports.
@Suite struct ArchitectureTests {
    private static let repository = Pages.repository

    private static func pages() throws -> String {
        try Pages.names.filter { $0.hasPrefix("docs/contributing/") }.map(Pages.text).joined(separator: "\n")
    }

    @Test("each file that the pages for contributors name exists") func files() throws {
        let named = try Self.pages().matches(of: /`((?:[\w+.\-]+\/)+[\w+.\-]+\.[a-z]+)`/).map { String($0.1) }
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
        let folders = try FileManager.default.contentsOfDirectory(
            atPath: Self.repository.appending(path: "Sources").path)
        // A folder whose name begins with C is a C library, except for Contract.
        let modules = folders.filter { ($0.first != "C" || $0 == "Contract") && $0 != "PythonClient" }
        #expect(Set(rows.map(\.name)) == Set(modules))
        for (index, row) in rows.enumerated() {
            let imported = try Self.imports(of: row.name)
            #expect(imported == Set(row.imports), "\(row.name)")
            #expect(imported.isSubset(of: rows[(index + 1)...].map(\.name)), "\(row.name) imports a module above it")
        }
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
