import Glibc
import Synchronization

/// The directories that a command has made before it is known to be right. If it is refused, this object goes away, and
/// removes those that are empty.
final class MadeDirectories: Sendable {
    /// In the order in which they were made; nil once all directories stay.
    private let paths = Mutex<[String]?>([])

    deinit { for path in (paths.withLock { $0 } ?? []).reversed() { rmdir(path) } }

    func record(_ made: [String]) { paths.withLock { kept in kept = kept.map { $0 + made } } }

    /// The command is right: the directories stay.
    func keep() { paths.withLock { $0 = nil } }
}
