import ArgumentParser
import HaulBus
import HaulContract
import HaulRedis
import HaulTerminal
import HaulWorker

struct Check: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "check", abstract: "Check that the queue's data in Redis is consistent.",
        discussion: "The queue may be in use. Exit status 1 if anything is wrong and was not repaired.")
    @OptionGroup var common: CommonOptions
    @Flag(help: "Repair what can be repaired.") var repair = false
    @Option(
        help: "Also search this root of workers for hidden files that no job of the queue needs any longer.",
        completion: .directory)
    var root: String?

    func run() async throws {
        let queue = try await common.connect()
        var findings = try await Inspection.findings(of: queue, repairing: repair)
        if let root {
            let inspection: RootInspection
            do { inspection = try RootInspection(root: root, of: queue) } catch {
                throw ExitStatus.printing(.usage, error.message)
            }
            findings += await inspection.run(repairing: repair)
        }
        for finding in findings {
            if common.json {
                Terminal.line(
                    JSON.object([
                        ("subject", JSON.quoted(finding.subject)), ("problem", JSON.quoted(finding.problem)),
                        ("advice", JSON.quoted(finding.advice)), ("repaired", String(finding.isRepaired)),
                    ]))
            } else {
                let what = finding.isRepaired ? "repaired" : finding.advice
                Terminal.line("\(finding.subject)  \(finding.problem)  (\(what))".printable)
            }
        }
        if findings.isEmpty, !common.json { Terminal.line("all is in order") }
        if findings.contains(where: { !$0.isRepaired }) { throw ExitStatus.jobFailed }
    }
}
