import Glibc

/// Reads a password from standard input. On a terminal it is asked for twice, without echo.
package enum Password {
    /// - Throws: `ExitStatus.usage` if the two inputs differ; the reason has been printed.
    package static func read(_ prompt: String) throws -> String {
        guard isatty(STDIN_FILENO) == 1 else { return readLine(strippingNewline: true) ?? "" }
        func ask(_ text: String) -> String {
            _ = text.withCString { write(STDERR_FILENO, $0, strlen($0)) }
            defer { Terminal.complain("") }
            return readLine(strippingNewline: true) ?? ""
        }
        return try HiddenInput.hiding(on: STDIN_FILENO) {
            let password = ask(prompt)
            guard ask("Once more: ") == password else {
                throw ExitStatus.printing(.usage, "the two passwords differ: run the command again")
            }
            return password
        }
    }
}
