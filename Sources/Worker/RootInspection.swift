package import HaulBus
package import HaulContract
import HaulRedis
import HaulStorage

/// Looks whether a root holds hidden files that no job wants any more.
package struct RootInspection: Sendable {
    /// Younger ones are about to be removed by whoever has ended their job.
    var age: Int64 = 60

    private let store: any Store
    private let queue: Queue

    /// `root` is a directory that workers have downloaded to.
    package init(root: String, of queue: Queue) throws(Failure) {
        (store, self.queue) = (try Stores.known(root: root), queue)
    }

    /// With `repairing` what is of no use is removed.
    package func run(repairing: Bool) async -> [Finding] {
        var files = Dictionary(grouping: await store.leftovers(olderThan: age), by: \.key)
        files[""] = nil
        let settled = await Orphans(queues: [queue]).takeSettled(from: &files)
        let removed = repairing ? Set(await store.remove(settled.map(\.file)).map(\.path)) : []
        return settled.map { orphan in
            Finding(
                "\(store.name)/\(orphan.file.path)",
                "a hidden file of job \(orphan.id), which is \(orphan.state?.rawValue ?? "removed"), is still there",
                "--repair removes it; workers of this root do so, too", isRepaired: removed.contains(orphan.file.path))
        }
    }
}
