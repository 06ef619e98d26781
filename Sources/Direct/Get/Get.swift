package import ArgumentParser
import Glibc
import HaulContract
import HaulStorage
import HaulTerminal
import Synchronization

package struct Get: AsyncParsableCommand {
    package static let configuration = CommandConfiguration(
        commandName: "get", _superCommandName: "haul", abstract: "Download files here and now, without Redis.",
        discussion: """
            To continue after Ctrl-C, an error or a crash, run the same command again, or use --continue. \
            If another file has the same name, that file stays as it is.

            Exit status: 0 all files are there, 1 a file is missing, 2 usage, 130 interrupted. \
            docs/guides/haul-get.md has the details.
            """)

    @OptionGroup(title: "What and where to") var source: GetSourceOptions
    @OptionGroup(title: "Servers") var request: RequestOptions
    @OptionGroup(title: "Transfer") var transfer: TransferOptions
    @OptionGroup(title: "Buckets") var bucket: BucketOptions
    @Flag(name: .shortAndLong, help: "Print only failures.") var quiet = false
    @Flag(name: .shortAndLong, help: "Print each decision: redirects, validators, what continues and what restarts.")
    var verbose = false
    @Flag(help: "One JSON object per line.") var json = false
    @OptionGroup var display: ProgressOption
    @Option(
        name: [.customShort("w", allowingJoined: true), .long],
        help: "Print this after each file, with curl's variables: %{http_code}, %{time_total}, %header{etag}, \\n.")
    var writeOut: String?
    @Option(help: "Run this command for each file that was fetched, with the event as JSON on its standard input.")
    var onComplete: String?
    @Option(help: "Run this command for each file that failed, with the event as JSON on its standard input.")
    var onError: String?

    @Option(
        help:
            "Download each list that appears in this directory, as -i would, and rename it to NAME.done or NAME.failed. Ends with SIGTERM or Ctrl-C.",
        completion: .directory)
    var watch: String?

    package init() {}

    package func validate() throws {
        guard watch == nil || source.namesNothing else {
            throw ValidationError("--watch reads URLs from the lists of a directory only: give no URL and no list.")
        }
        guard watch != nil || source.configuration.printConfig || source.forget || !source.namesNothing else {
            throw ValidationError("Missing expected argument '<urls> ...'")
        }
        guard !json || !source.isToStandardOutput else {
            throw ValidationError("-o - and --json both write to standard output: give one of them.")
        }
        guard !json && onComplete == nil && onError == nil || !source.isStreaming else {
            throw ValidationError(
                "--json, --on-complete and --on-error are about files, and -o names standard output, a pipe or a device: -w prints what became of each."
            )
        }
    }

    package func run() async throws {
        let configuration = try source.configuration.read()
        if source.configuration.printConfig { return Terminal.write(configuration?.text ?? "") }
        if let watch { return try await download(listsIn: watch, configuration) }
        try source.checkSingleFileOptions()
        try await run(settings(configuration), GetSender(request), writeOut.map(WriteOut.read))
    }

    func settings(_ configuration: GetConfiguration?) throws -> TransferSettings {
        try TransferSettings(request, transfer, bucket, configuration)
    }

    func run(_ settings: TransferSettings, _ sender: GetSender, _ writeOut: WriteOut?) async throws {
        if source.isStreaming { return try await writeToStreams(settings, sender, writeOut) }
        var plan = try await GetPlan(source, sender, settings, isVerbose: verbose)
        try settings.stores.check(Set(plan.items.map(\.root) + [plan.root]))
        let downloadLog = try DownloadLog()
        var unended = await downloadLog.unended()
        if !unended.isEmpty {
            await UnfinishedDownloads.settle(unended, in: plan.root, plan.items, settings, downloadLog)
            unended = await downloadLog.unended()
        }
        let left = UnfinishedDownloads(unended, in: plan.root, downloadLog)
        if source.forget || source.continues {
            await UnfinishedDownloads.removeHidden(in: plan.root, settings, downloadLog)
        }
        if source.forget { try await forget(left, settings) }
        let others = source.forget ? [] : await left.records(besides: plan.items)
        let partial = others.filter(\.isPartial)
        if source.continues { for record in others where !record.isPartial { try plan.add(record) } }
        // If the reader goes away after the first lines, the command has to end as failed.
        Terminal.isFollowing.store(true, ordering: .relaxed)
        let reporter = makeReporter()
        if !source.continues, let summary = UnfinishedDownloads.summary(of: others) { reporter.record(summary) }
        if source.continues, request.hasSecrets, let line = UnfinishedDownloads.unknownSources(of: others) {
            reporter.record(line)
        }
        let areLeft = source.continues && !partial.isEmpty
        if areLeft { reporter.record(UnfinishedDownloads.refusal(of: partial)) }
        guard !plan.items.isEmpty else {
            if source.continues, !areLeft { reporter.record("nothing is left to continue in \(plan.root)") }
            await reporter.flush()
            if areLeft { throw ExitStatus.jobFailed }
            return
        }
        var (metalinks, isFailed) = try await download(plan.items, settings, downloadLog, reporter, writeOut)
        if !metalinks.isEmpty {
            try await plan.follow(metalinks, isVerbose: verbose)
            let followed = try await download(plan.items, settings, downloadLog, makeReporter(), writeOut)
            isFailed = followed.isFailed || isFailed
        }
        if isFailed || areLeft { throw ExitStatus.jobFailed }
    }

    /// Returns the downloads instead of which servers have sent Metalinks, and whether a download or a command has failed.
    private func download(
        _ items: [GetItem], _ settings: TransferSettings, _ downloadLog: DownloadLog, _ reporter: TransferReporter,
        _ writeOut: WriteOut?
    ) async throws -> (metalinks: [GetItem], isFailed: Bool) {
        // The names of a Metalink's files come from its server, and are known only now.
        if let watch { try Self.check(Set(items.map(\.directory)), whileWatching: watch) }
        let hooks =
            onComplete == nil && onError == nil ? nil : GetHooks(onComplete: onComplete, onError: onError)
        let runner = GetRunner(
            items, settings, downloadLog, reporter, parallel: transfer.parallel,
            writeOut: writeOut, hooks: hooks)
        let begun = ContinuousClock.now
        let work = Task { await runner.run() }
        let signals = Signals.cancelling(work)
        defer { signals.cancel() }
        // With --watch the task of all lists may have been cancelled before this one was made.
        let results = await withTaskCancellationHandler {
            await work.value
        } onCancel: {
            work.cancel()
        }
        let metalinks = results.filter { if case .metalink = $0.1.end { true } else { false } }
        let files = results.filter { if case .metalink = $0.1.end { false } else { true } }
        if !files.isEmpty { await reporter.end(files, seconds: (ContinuousClock.now - begun).secondsValue) }
        try settings.saveCookies()
        if work.isCancelled {
            reporter.record("interrupted: run the same command again to continue, or haul get --continue")
            await reporter.flush()
            throw ExitStatus.interrupted
        }
        let isFailed = results.contains { $0.1.isFailed } || hooks?.hasFailed == true
        return (metalinks.map(\.0), isFailed)
    }

    private func forget(_ left: UnfinishedDownloads, _ settings: TransferSettings) async throws {
        let reporter = makeReporter()
        for record in await left.records(besides: []) {
            let store: any DurableStore
            do { store = try await settings.stores.store(record.root) } catch {
                throw ExitStatus.printing(.usage, error.message)
            }
            await left.forget(record, in: store)
            reporter.record("removed the unfinished \(UnfinishedDownloads.name(of: record)) (\(record.root))")
        }
        await reporter.flush()
    }

    func makeReporter() -> TransferReporter {
        let style = display.progress ?? (quiet || json ? ProgressStyle.none : nil)
        let progress = ProgressDestination.choose(style, isOutputTaken: source.isToStandardOutput || json)
        let hasTable = progress == .output || progress == .error && source.isToStandardOutput
        return TransferReporter(
            form: quiet ? .quiet : json ? .json : hasTable ? .bars : .lines, progress: progress, isVerbose: verbose,
            isOutputTaken: source.isToStandardOutput, here: Self.currentDirectory)
    }

    private static var currentDirectory: String {
        guard let path = getcwd(nil, 0) else { return "/" }
        defer { free(path) }
        return String(cString: path)
    }
}
