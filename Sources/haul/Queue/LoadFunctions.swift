import ArgumentParser
import HaulBus
import HaulContract
import HaulRedis
import HaulTerminal

struct LoadFunctions: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "load-functions",
        abstract: "Load this version's functions into Redis, for workers that may not do so themselves.",
        discussion: "Run it once for each version, before its first worker starts. It may be repeated.")
    @OptionGroup var common: CommonOptions

    func run() async throws {
        let queue = try await common.connect()
        let count = try await printingErrors { () throws(RedisError) in try await queue.loadFunctions() }
        let name = queue.nameOfFunctions
        if common.json {
            return Terminal.line(JSON.object([("library", JSON.quoted(name)), ("servers", String(count))]))
        }
        Terminal.line(count == 1 ? "\(name) is loaded" : "\(name) is loaded on \(count) servers")
    }
}
