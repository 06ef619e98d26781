import Foundation
import Glibc
import Synchronization

/// A directory that is removed with its last reference, or at the latest by `Lifeline` when the test process ends.
package final class TemporaryDirectory: Sendable {
    package let path: String
    private static let count = Atomic(0)

    package init() {
        _ = Lifeline.group
        path = "\(Lifeline.directory)/\(Self.count.add(1, ordering: .relaxed).newValue)"
        mkdir(path, 0o700)
    }

    deinit { try? FileManager.default.removeItem(atPath: path) }

    package func file(_ name: String) -> String { path + "/" + name }

    package func contents(_ name: String) -> [UInt8]? {
        FileManager.default.contents(atPath: file(name)).map { Array($0) }
    }

    /// Whether the content of the file is exactly these bytes.
    package func holds(_ name: String, _ bytes: FileBytes) -> Bool { contents(name).map { $0 == bytes.all } ?? false }

    /// All names in the directory, including hidden ones, without the store's id.
    package var names: [String] {
        ((try? FileManager.default.contentsOfDirectory(atPath: path)) ?? []).filter { $0 != ".haul-store" }.sorted()
    }
}
