package import HaulBus
package import HaulContract
import HaulRedis
import HaulStorage

/// Finds hidden files of a root that no job needs any longer.
package struct RootInspection: Sendable {
    /// Seconds. A younger file may still be removed by the worker that has ended its job.
    var age: Int64 = 60

    private let store: any DurableStore
    private let queue: Queue

    /// - Parameter root: A directory that workers have downloaded to.
    /// - Throws: `Failure` if it is not such a directory.
    package init(root: String, of queue: Queue) throws(Failure) {
        (store, self.queue) = (try Stores.known(root: root), queue)
    }

    /// Returns a finding for each useless file. With `repairing` the file is removed.
    package func run(repairing: Bool) async -> [Finding] {
        var files = Dictionary(grouping: await store.leftovers(olderThan: age), by: \.key)
        files[""] = nil
        let settled = await Orphans(queues: queue.parts).takeSettled(from: &files)
        let removed = repairing ? Set(await store.remove(settled.map(\.file)).map(\.path)) : []
        return settled.map { orphan in
            Finding(
                "\(store.name)/\(orphan.file.path)",
                "a hidden file of job \(orphan.id), which is \(orphan.state?.rawValue ?? "removed"), is still there",
                "--repair removes it; workers of this root do so, too", isRepaired: removed.contains(orphan.file.path))
        }
    }
}
