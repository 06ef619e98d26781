import Glibc

/// The variables of this process.
package enum Environment {
    /// nil also for a variable that is empty.
    package static func text(_ name: String) -> String? {
        getenv(name).map { String(cString: $0) }.flatMap { $0.isEmpty ? nil : $0 }
    }
}
