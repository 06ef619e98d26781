/// What an option names and gives a value.
package enum NamedValue {
    /// The parts of `NAME=VALUE`. Throws `.usage` with a sentence.
    package static func parts(of text: String) throws -> (String, String) {
        guard let equals = text.firstIndex(of: "=") else {
            throw ExitStatus.because(.usage, "\(text) wants the form NAME=VALUE")
        }
        return (String(text[..<equals]), String(text[text.index(after: equals)...]))
    }
}
