package import Foundation

/// The pages that the tests read, run and compare: README.md and everything beneath docs/.
package enum Pages {
    package static let repository = SchemaValidator.repository

    /// Paths within the repository, in a fixed order.
    package static let names: [String] = {
        let paths =
            (try? FileManager.default.subpathsOfDirectory(atPath: repository.appending(path: "docs").path)) ?? []
        return ["README.md"] + paths.filter { $0.hasSuffix(".md") }.sorted().map { "docs/" + $0 }
    }()

    /// The README.md files beneath Sources/, which say how the code is designed. That of the Python client is for its
    /// users.
    package static let designs: [String] = {
        let paths =
            (try? FileManager.default.subpathsOfDirectory(atPath: repository.appending(path: "Sources").path)) ?? []
        return paths.filter { $0.hasSuffix("/README.md") && $0 != "PythonClient/README.md" }.sorted().map {
            "Sources/" + $0
        }
    }()

    package static func text(_ name: String) throws -> String {
        try String(contentsOf: repository.appending(path: name), encoding: .utf8)
    }

    /// The blocks of a page behind this fence, such as `sh run`.
    package static func blocks(_ fence: String, of name: String) throws -> [String] {
        var blocks: [String] = []
        var current: [Substring]?
        for line in try text(name).split(separator: "\n", omittingEmptySubsequences: false) {
            if line == "```" + fence {
                current = []
            } else if line == "```", let lines = current {
                blocks.append(lines.joined(separator: "\n"))
                current = nil
            } else {
                current?.append(line)
            }
        }
        return blocks
    }

    /// The blocks of all pages behind this fence.
    package static func blocks(_ fence: String) throws -> [String] {
        try names.flatMap { try blocks(fence, of: $0) }
    }
}
