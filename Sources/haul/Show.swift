import ArgumentParser
import HaulBus
import HaulRedis

struct Show: AsyncParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Show one job; secrets are left out.")

    @OptionGroup var common: CommonOptions
    @Argument(help: "A job's id.", completion: Completer.jobs) var id: String

    func validate() throws { try Selection.check([id]) }

    func run() async throws {
        let queue = try await common.connect()
        guard let record = try await reaching({ () throws(RedisError) in try await queue.job(id) }) else {
            throw ExitStatus.because(
                .jobFailed, "no job \(id) is known in the queue \(queue.name); it may be in line still (haul list)")
        }
        Terminal.line(common.json ? JobView(record: record).json : JobView(record: record).text)
    }
}
