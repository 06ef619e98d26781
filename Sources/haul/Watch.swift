import ArgumentParser
import HaulBus
import HaulRedis

struct Watch: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Follow jobs as they go; without ids, all of them.",
        discussion: "Ends when all named jobs have ended.")
    @OptionGroup var common: CommonOptions
    @Argument(help: "Ids of jobs.", completion: Completer.jobs) var ids: [String] = []

    func validate() throws { try Selection.check(ids) }

    func run() async throws {
        let queue = try await common.connect()
        let known = try await reaching { () throws(RedisError) in Set(try await queue.jobs(ids).map(\.id)) }
        for id in ids where !known.contains(id) {
            Terminal.complain(
                "haul: no job \(id) is known in the queue \(queue.name) yet; it may be in line (haul list): waiting for it"
            )
        }
        try await Follower(queue, ids, json: common.json).follow()
    }
}
