import Glibc

/// The environment variables of this process.
package enum Environment {
    /// nil if the variable is not set, or is empty.
    package static func text(_ name: String) -> String? {
        getenv(name).map { String(cString: $0) }.flatMap { $0.isEmpty ? nil : $0 }
    }
}

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
