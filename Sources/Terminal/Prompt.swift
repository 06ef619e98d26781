import Glibc

/// Asks before something is destroyed.
package enum Prompt {
    /// Returns if the answer is yes.
    ///
    /// - Parameter isConfirmed: `--yes` was given, so nothing is asked.
    /// - Throws: `ExitStatus.usage` without a terminal, `.jobFailed` for any other answer; the reason has been printed.
    package static func confirm(_ question: String, isConfirmed: Bool) throws {
        if isConfirmed { return }
        guard isatty(STDIN_FILENO) == 1, isatty(STDERR_FILENO) == 1 else {
            throw ExitStatus.printing(.usage, "there is no terminal to ask on: give --yes. Nothing was done.")
        }
        Terminal.prompt("\(question) [y/N] ")
        let answer = (readLine() ?? "").lowercased()
        guard answer == "y" || answer == "yes" else { throw ExitStatus.printing(.jobFailed, "Nothing was done.") }
    }
}
