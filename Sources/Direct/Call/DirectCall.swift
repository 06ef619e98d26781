import Glibc
import HaulActivities
package import HaulContract
import HaulFileStore
import HaulHTTP
import HaulTerminal

/// Requests that this process sends, without Redis and without a worker. The activity is the same as a worker's.
package struct DirectCall: Sendable {
    package struct Request: Sendable {
        package let job: Job
        /// The file for the body; nil for standard output.
        package let output: String?
        /// As given, without the credentials of options.
        fileprivate let url: String

        package init(job: Job, output: String?) { self.init(job: job, output: output, url: job.urls.first ?? "") }

        fileprivate init(job: Job, output: String?, url: String) {
            (self.job, self.output, self.url) = (job, output, url)
        }
    }

    package struct Options: Sendable {
        /// Print the status and the header fields before the body.
        package var includesHead = false
        /// A file for the status and the header fields.
        package var headOutput: String?
        /// Print no body of a response that is not expected.
        package var hidesFailures = false
        package var isVerbose = false
        package var writeOut: String?
        package var retries: Int?
        package var connectTimeout: Double?
        package var maxTime: Double?

        package init() {}
    }

    private let requests: [Request]
    private let options: Options
    private let settings: TransferSettings
    private let writeOut: WriteOut?

    /// - Throws: `ExitStatus.usage`; the reason has been printed.
    package init(_ requests: [Request], _ servers: RequestOptions, _ options: Options) throws {
        var transfer = TransferOptions()
        (transfer.parallel, transfer.connections, transfer.limitRate) = (1, 1, nil)
        // Like curl: a person or a script decides what happens after an error.
        (transfer.retries, transfer.connectTimeout, transfer.timeout) = (
            options.retries ?? 0, options.connectTimeout, nil
        )
        (transfer.maxTime, transfer.minSpeed) = (options.maxTime, nil)
        (transfer.durability, transfer.remoteTime) = (.process, false)
        settings = try TransferSettings(servers, transfer)
        writeOut = try options.writeOut.map(WriteOut.read)
        self.options = options
        let credentials = try GetCredentials(servers)
        let headers = credentials.headers.map { HeaderField($0.0, $0.1) }
        self.requests = requests.map { request in
            var job = request.job
            job.urls = job.urls.map(credentials.apply)
            job.headers += headers
            job.retries = options.retries ?? 0
            return Request(job: job, output: request.output, url: request.url)
        }
    }

    /// Sends the requests one after another, and prints the responses.
    ///
    /// - Throws: `ExitStatus` unless all responses are as expected; the reasons have been printed.
    package func run() async throws {
        // Before anything is sent: a response that cannot be written would be lost.
        var opened: [CallOutput] = []
        defer { for output in opened { output.removeIfUnused() } }
        func open(_ path: String?) throws -> CallOutput {
            let output = try CallOutput(path)
            // Two positions in one file would mix what is written.
            if let same = opened.first(where: { $0.isSame(as: output) }) { return same }
            opened.append(output)
            return output
        }
        let outputs = try requests.map { try open($0.output) }
        let headOutput = try options.headOutput.map(open)
        let reporter = TransferReporter(
            form: .lines, progress: .nowhere, isVerbose: options.isVerbose, isOutputTaken: true, here: "/")
        // One task for all requests, so that a signal between two of them ends the command as well.
        let work = Task {
            var isGood = true
            for (request, output) in zip(requests, outputs) where !Task.isCancelled {
                isGood = await send(request, to: output, headOutput, reporter) && isGood
            }
            return isGood
        }
        let signals = Signals.cancelling(work)
        defer { signals.cancel() }
        let isGood = await work.value
        try settings.saveCookies()
        if work.isCancelled { throw ExitStatus.interrupted }
        if !isGood { throw ExitStatus.jobFailed }
    }

    /// Returns whether the response is as expected, and was written.
    private func send(
        _ request: Request, to output: CallOutput, _ headOutput: CallOutput?, _ reporter: TransferReporter
    ) async -> Bool {
        let begun = ContinuousClock.now
        let label = request.job.urls.first.map(MaskedURL.keepingQuery) ?? ""
        let record = TransferRecord(settings.cookieFile, trace: reporter.trace(of: label))
        let receiver = CallReceiver(output, headOutput, includesHead: options.includesHead)
        var context = settings.context(OutputStore(output.pipe))
        context.receiver = receiver
        let item = PutPlan.Item(job: request.job, label: label)
        let end = await PutRun(item, settings, context, reporter).runWithTimeLimit(recordedBy: record)
        var failure: Failure?
        if case .failed(let why, let response) = end {
            failure = why
            if let response {
                // The body of an error is not what belongs into a file.
                let isAlone = output.file != nil
                show(response, record.facts.head, isAlone: isAlone, through: receiver)
                if isAlone, !options.hidesFailures { Self.printError(response.body, through: reporter) }
            }
        }
        for output in [output, headOutput].compactMap(\.self) {
            do throws(TransferError) { try await output.pipe.flush() } catch {
                if failure == nil, case .failed(let why) = error { failure = why }
            }
        }
        if let failure { reporter.printError("haul: \(label): \(failure.code): \(failure.message)") }
        if let writeOut {
            var values = WriteOut.Values(url: request.url, facts: record.facts)
            (values.downloaded, values.uploaded) = (receiver.received, Int64(request.job.bodyCount))
            values.seconds = (ContinuousClock.now - begun).secondsValue
            (values.method, values.file) = (request.job.method, request.output ?? "")
            (values.isSuccess, values.message) = (failure == nil, failure.map { "\($0)" } ?? "")
            reporter.write(writeOut.pieces(values))
        }
        await reporter.flush()
        if case .stopped = end { return false }
        return failure == nil
    }

    /// Prints the body of an error on standard error, which can be text only.
    private static func printError(_ body: [UInt8], through reporter: TransferReporter) {
        guard !body.isEmpty, !body.contains(0) else { return }
        let text = String(decoding: body, as: UTF8.self)
        reporter.write([(text: text.utf8.last == UInt8(ascii: "\n") ? text : text + "\n", isError: true)])
    }

    /// Prints a response that is not expected.
    ///
    /// - Parameter isAlone: Only the head may be written, into a file of its own.
    private func show(
        _ response: StoredResponse, _ head: ResponseHead?, isAlone: Bool, through receiver: CallReceiver
    ) {
        if let head { receiver.write(head: head, isAlone: isAlone) }
        if !isAlone, !options.hidesFailures { receiver.write(response.body) }
    }
}

extension Job {
    /// The bytes of the body of a request.
    fileprivate var bodyCount: Int {
        if let json = request.json { return json.utf8.count }
        if let text = request.bodyBase64 {
            return text.utf8.count / 4 * 3 - text.utf8.suffix(2).count { $0 == UInt8(ascii: "=") }
        }
        return body?.utf8.count ?? 0
    }
}
