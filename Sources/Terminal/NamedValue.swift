/// The argument of an option that takes `NAME=VALUE`.
package enum NamedValue {
    /// - Throws: `ExitStatus.usage` if there is no `=`; the reason has been printed.
    package static func parts(of text: String) throws -> (String, String) {
        guard let equals = text.firstIndex(of: "=") else {
            throw ExitStatus.printing(.usage, "\"\(text)\" must have the form NAME=VALUE")
        }
        return (String(text[..<equals]), String(text[text.index(after: equals)...]))
    }
}
