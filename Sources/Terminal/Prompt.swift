import Glibc

/// Asks before something is destroyed.
package enum Prompt {
    /// Whether there is a terminal on which a person can be asked.
    package static var isPossible: Bool { isatty(STDIN_FILENO) == 1 && isatty(STDERR_FILENO) == 1 }

    /// Returns if the answer is yes.
    ///
    /// - Parameter isConfirmed: `--yes` was given, so nothing is asked.
    /// - Throws: `ExitStatus.usage` without a terminal, `.jobFailed` for any other answer; the reason has been printed.
    package static func confirm(_ question: String, isConfirmed: Bool) throws {
        if isConfirmed { return }
        guard isPossible else {
            throw ExitStatus.printing(.usage, "there is no terminal to ask on: give --yes. Nothing was done.")
        }
        Terminal.prompt("\(question) [y/N] ")
        let answer = (readLine() ?? "").lowercased()
        guard answer == "y" || answer == "yes" else { throw ExitStatus.printing(.jobFailed, "Nothing was done.") }
    }
}

/// Reads a password from standard input. On a terminal it is asked for twice, without echo.
package enum Password {
    /// - Throws: `ExitStatus.usage` if the two inputs differ; the reason has been printed.
    package static func read(_ prompt: String) throws -> String {
        guard isatty(STDIN_FILENO) == 1 else { return readLine(strippingNewline: true) ?? "" }
        func ask(_ text: String) -> String {
            _ = text.withCString { write(STDERR_FILENO, $0, strlen($0)) }
            defer { Terminal.printError("") }
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
