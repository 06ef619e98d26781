package import Foundation

/// A JSON Schema of docs/reference/schema, read by a third-party validator (Debian's python3-jsonschema).
package struct SchemaValidator {
    package static let repository = URL(filePath: #filePath).appending(path: "../../..").standardized
    private let schema: URL

    /// - Parameter name: A file beneath docs/reference/schema.
    package init(_ name: String) { schema = Self.repository.appending(path: "docs/reference/schema/\(name)") }

    /// Returns a verdict for each text: "accepted", "no JSON", or "refused" with the reason. No text may contain a line
    /// break.
    ///
    /// - Parameter isClosed: Whether members that the schema does not name are refused as well.
    package func verdicts(_ texts: [String], isClosed: Bool = false) async throws -> [String] {
        let script = Self.repository.appending(path: "Tests/schema/validate.py").path
        let process = try ChildProcess(
            "/usr/bin/python3", [script, schema.path] + (isClosed ? ["--closed"] : []),
            input: texts.map { $0 + "\n" }.joined())
        guard try await process.wait(within: .seconds(120)) == 0 else {
            throw ChildProcess.Missing(
                description:
                    "the validator failed: \(process.standardError) (deploy/test.sh installs python3-jsonschema)")
        }
        return process.standardOutput.split(separator: "\n").map(String.init)
    }
}
