import Glibc
import HaulContract
import HaulTerminal

/// The lists that options name: lists of downloads, lists of checksums, and Metalink files. Lists that are URLs are
/// fetched first, by the same rules as any download.
struct GetLists: Sendable {
    private var fetched: [String: [UInt8]] = [:]

    init() {}

    /// - Parameter headers: The header fields for a list, by its URL.
    /// - Throws: `ExitStatus.jobFailed` if a list cannot be fetched, `.interrupted`, or `.usage`; the reason has been
    ///   printed.
    init(
        _ lists: [String], _ credentials: GetCredentials, _ settings: TransferSettings, isVerbose: Bool,
        headers: (String) throws -> [HeaderField]
    ) async throws {
        let urls = Set(lists.filter(TextFile.isURL)).sorted()
        guard !urls.isEmpty else { return }
        let names = urls.indices.map(String.init)
        let scratch = try ScratchDirectory()
        defer {
            settings.stores.forget(scratch.path)
            scratch.remove()
        }
        let items = try zip(urls, names).map { url, name in
            try Self.item(url, name, in: scratch.path, credentials, headers(url))
        }
        let reporter = TransferReporter(
            form: .quiet, progress: .nowhere, isVerbose: isVerbose, isOutputTaken: false, here: scratch.path)
        let runner = GetRunner(items, settings, scratch.downloadLog, reporter, parallel: items.count)
        let work = Task { await runner.run() }
        let signals = Signals.cancelling(work)
        defer { signals.cancel() }
        // The task of the command may have been cancelled before this one was made.
        let results = await withTaskCancellationHandler {
            await work.value
        } onCancel: {
            work.cancel()
        }
        await reporter.flush()
        if work.isCancelled { throw ExitStatus.interrupted }
        guard !results.contains(where: { $0.1.isFailed }) else { throw ExitStatus.jobFailed }
        for (url, name) in zip(urls, names) { fetched[url] = try TextFile.bytes(of: "\(scratch.path)/\(name)") }
    }

    private static func item(
        _ url: String, _ name: String, in root: String, _ credentials: GetCredentials, _ headers: [HeaderField]
    ) throws -> GetItem {
        var job: Job
        do {
            job = try Job(
                json: try JSON(
                    JSON.object([
                        ("url", JSON.quoted(credentials.apply(to: url))), ("path", JSON.quoted(name)),
                        ("max_bytes", String(RemoteList.maxBytes)),
                    ])))
        } catch { throw ExitStatus.printing(.usage, "\(TextFile.name(url)): \(error)") }
        job.headers = headers
        return GetItem(job: job, root: root, members: [])
    }

    /// All bytes of a list.
    ///
    /// - Throws: `ExitStatus.usage`; the reason has been printed.
    func bytes(of path: String) throws -> [UInt8] { try fetched[path] ?? TextFile.bytes(of: path) }

    /// The lines of a list, without LF or CRLF.
    ///
    /// - Throws: `ExitStatus.usage`, even if only a line is not UTF-8; the reason has been printed.
    func lines(of path: String) throws -> [String] {
        let bytes = try bytes(of: path)
        if fetched[path] != nil {
            try RemoteList.admit(bytes.count { $0 == UInt8(ascii: "\n") }, "lines", of: path)
        }
        return try TextFile.lines(bytes, of: path)
    }
}
