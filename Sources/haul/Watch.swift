import ArgumentParser
import Bus

struct Watch: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Follow jobs as they go; without ids, all of them.",
        discussion: "Ends when all named jobs have ended.")
    @OptionGroup var common: CommonOptions
    @Argument var ids: [String] = []

    func run() async throws {
        let queue = try await common.connect()
        try await Follower(queue, ids, json: common.json).follow()
    }
}
