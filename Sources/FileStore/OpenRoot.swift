import Synchronization

/// The root as it was last opened. It may have been removed and restored.
final class OpenRoot: Sendable {
    private let current: Mutex<Directory>

    init(_ directory: Directory) { current = Mutex(directory) }

    var directory: Directory { current.withLock { $0 } }

    func replace(with directory: Directory) { current.withLock { $0 = directory } }
}
