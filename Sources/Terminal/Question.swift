import Glibc

/// Asks before something is destroyed.
package enum Question {
    /// Returns if the answer is yes, or was given with `--yes`. Where nobody can be asked it takes `--yes`.
    package static func confirm(_ question: String, isConfirmed: Bool) throws {
        if isConfirmed { return }
        guard isatty(STDIN_FILENO) == 1, isatty(STDERR_FILENO) == 1 else {
            throw ExitStatus.because(.usage, "nobody can be asked here, so this takes --yes. Nothing was done.")
        }
        Terminal.prompt("\(question) [y/N] ")
        let answer = (readLine() ?? "").lowercased()
        guard answer == "y" || answer == "yes" else { throw ExitStatus.because(.jobFailed, "Nothing was done.") }
    }
}
