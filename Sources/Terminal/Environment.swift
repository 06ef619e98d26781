import Glibc
import HaulContract

/// The environment variables of this process.
package enum Environment {
    /// nil if the variable is not set, or is empty.
    package static func text(_ name: String) -> String? {
        getenv(name).map { String(cString: $0) }.flatMap { $0.isEmpty ? nil : $0 }
    }

    /// The same for a variable that protects or restricts, which must not be empty.
    ///
    /// - Throws: `ExitStatus.usage` if it is empty; the reason has been printed.
    package static func protection(_ name: String) throws -> String? {
        if let value = getenv(name), value.pointee == 0 {
            throw ExitStatus.printing(
                .usage, "the variable \(name) is empty: give it a value, or remove it to run without that setting")
        }
        return text(name)
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

    /// The pairs as a JSON object of texts.
    ///
    /// - Throws: `ExitStatus.usage` if a name is there twice, because a job has one value of each; the reason has been
    ///   printed. `advice` is its end.
    package static func object(_ pairs: [(String, String)], of option: String, _ advice: String) throws -> String {
        var known: Set<String> = []
        for (name, value) in pairs where !known.insert(name).inserted {
            let first = pairs.first { $0.0 == name }?.1 ?? ""
            throw ExitStatus.printing(
                .usage, "\(option) gives \(name) twice, as \(JSON.quoted(first)) and \(JSON.quoted(value)): \(advice)")
        }
        return JSON.object(pairs.map { ($0.0, JSON.quoted($0.1)) })
    }

    /// The same for header fields. Of a name that no job may have, the first value is enough to refuse it.
    package static func headers(_ pairs: [(String, String)], of option: String) throws -> String {
        var known: Set<String> = []
        let kept = pairs.filter { name, _ in
            known.insert(name).inserted || !JobField.forbiddenInRequests.contains(name.lowercased())
        }
        return try object(kept, of: option, "give all values in one header, separated by commas")
    }
}
