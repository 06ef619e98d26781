import Glibc

/// The environment variables of this process.
package enum Environment {
    /// nil if the variable is not set, or is empty.
    package static func text(_ name: String) -> String? {
        getenv(name).map { String(cString: $0) }.flatMap { $0.isEmpty ? nil : $0 }
    }
}
