package import ArgumentParser
import Glibc
import HaulActivities
import HaulContract
import HaulFileStore
import HaulTerminal
import Synchronization

package struct Put: AsyncParsableCommand {
    package static let configuration = CommandConfiguration(
        commandName: "put", _superCommandName: "haul", abstract: "Upload files here and now, without Redis.",
        discussion: """
            If the URL ends with /, each file's name is added to it. A POST or PATCH is sent once: it is not \
            idempotent. Workers can upload the files of their store: docs/guides/uploads.md.

            Exit status: 0 the server has all files, 1 a file is missing, 2 usage, 130 interrupted.
            """)

    @Argument(help: "Files, or - for standard input, and then the URL.", completion: .file()) var words: [String]
    @OptionGroup var options: PutOptions
    @Flag(help: "Print the server's response.") var body = false
    @Flag(name: .shortAndLong, help: "Print only failures.") var quiet = false
    @Flag(name: .shortAndLong, help: "Print each decision, like redirects.") var verbose = false
    @OptionGroup var display: ProgressOption

    package init() {}

    package func validate() throws {
        guard words.count > 1 else { throw ValidationError("haul put requires FILE… and a URL") }
    }

    package func run() async throws {
        let settings = try TransferSettings(options.request, options.transfer)
        let url = words.last!
        let credentials = try GetCredentials(options.request)
        let plan = try PutPlan(files: Array(words.dropLast()), url: url, options, credentials)
        var context: ActivityContext
        do throws(Failure) {
            context = settings.context(try await settings.stores.store(plan.root))
            context.sources = PutSources(files: try SourceDirectory(plan.root), pipes: plan.pipes)
        } catch { throw ExitStatus.printing(.usage, error.message) }
        let progress = ProgressDestination.choose(display.progress ?? (quiet ? ProgressStyle.none : nil))
        let reporter = TransferReporter(
            form: quiet ? .quiet : progress == .output ? .bars : .lines, progress: progress, isVerbose: verbose,
            isOutputTaken: false, here: "/")
        let runner = PutRunner(
            plan.items.map { PutRun($0, settings, context, reporter) }, settings, reporter, parallel: options.parallel)
        let isQuiet = quiet
        let work = Task {
            await runner.run { run, end in
                switch end {
                case .responded(let response, let seconds):
                    if !isQuiet { reporter.line(Self.resultLine(run.item.label, response, seconds).printable) }
                case .failed(let failure, _):
                    reporter.printError("haul: \(run.item.label): \(failure.code): \(failure.message)")
                case .stopped: break
                }
            }
        }
        let signals = Signals.cancelling(work)
        defer { signals.cancel() }
        let ends = await work.value
        await reporter.flush()
        try settings.saveCookies()
        if body { ends.forEach(Self.printBody) }
        if work.isCancelled { throw ExitStatus.interrupted }
        if ends.contains(where: { if case .responded = $0 { false } else { true } }) { throw ExitStatus.jobFailed }
    }

    /// `film.bin  1.2 GiB in 12s (100.0 MiB/s): HTTP 201`
    private static func resultLine(_ label: String, _ response: StoredResponse, _ seconds: Double) -> String {
        let bytes = response.uploaded ?? 0
        let speed = seconds > 0 ? " (\(Units.speed(Int64(Double(bytes) / seconds))))" : ""
        return "\(label)  \(Units.bytes(bytes)) in \(Units.duration(seconds))\(speed): HTTP \(response.status)"
    }

    private static func printBody(_ end: PutRun.End) {
        switch end {
        case .responded(let response, _), .failed(_, let response?):
            guard isatty(STDOUT_FILENO) == 0 || !response.body.contains(0) else {
                return Terminal.printError("haul: the response is binary, and is not written to a terminal")
            }
            Terminal.write(response.body)
        case .failed(_, nil), .stopped: break
        }
    }
}
