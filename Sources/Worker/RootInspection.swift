package import HaulBus
package import HaulContract
import HaulDownload
import HaulExecutors
import HaulRedis

/// Looks whether a root holds hidden files that no job wants any more.
package struct RootInspection: Sendable {
    /// Younger ones are about to be removed by whoever has ended their job.
    var age: Int64 = 60

    private let store: Store
    private let queue: Queue
    private let blocking = BlockingPool(name: "check", limit: 1)

    /// `root` is a directory that workers have downloaded to.
    package init(root: String, of queue: Queue) throws(Failure) {
        (store, self.queue) = (try Store(known: root), queue)
    }

    /// With `repairing` what is of no use is removed.
    package func run(repairing: Bool) async -> [Finding] {
        let found = await blocking.run { [store, age] in store.partials(olderThan: age) }
        var files = Dictionary(grouping: found, by: \.key)
        files[""] = nil
        let settled = await Orphans(queues: [queue]).takeSettled(from: &files)
        return await blocking.run { [store] in
            settled.map { orphan in
                Finding(
                    "\(store.root)/\(orphan.file.path)",
                    "a hidden file of job \(orphan.id), which is \(orphan.state.rawValue), is still there",
                    "--repair removes it; workers of this root do so, too",
                    isRepaired: repairing && store.unlink(orphan.file))
            }
        }
    }
}
