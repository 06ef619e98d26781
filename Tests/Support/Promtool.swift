package import Testing

/// promtool, Prometheus' own parser and linter of its text format (Debian: prometheus).
package enum Promtool {
    /// Fails the test if `text` is not valid or breaks a convention.
    package static func check(_ text: String, sourceLocation: SourceLocation = #_sourceLocation) async throws {
        let tool = try ChildProcess("promtool", ["check", "metrics"], input: text)
        let status = try await tool.wait()
        #expect(
            status == 0 && tool.standardError.isEmpty, "\(tool.standardError)\(tool.standardOutput)\n\(text)",
            sourceLocation: sourceLocation)
    }
}
