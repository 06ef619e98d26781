import ArgumentParser
import HaulBus
import HaulContract
import HaulTerminal

struct CacheCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "cache",
        abstract: "Show and clear the responses of requests that a queue keeps.",
        subcommands: [ListCache.self, ShowCache.self, SizeCache.self, ClearCache.self])
}

/// The options that select kept responses.
struct CacheFilter: ParsableArguments {
    @OptionGroup var common: CommonOptions
    @Option(help: "Only responses to URLs like this, without a query; * matches any characters.") var url: String?
    @Option(help: "Only responses to requests with this method.") var method: String?
    @Option(help: "Only responses that the server sent or confirmed longer ago: 90s, 10m, 2h, 7d.") var older: String?

    func validate() throws {
        if let older, Age.milliseconds(older) == nil {
            throw ValidationError("--older must be a time like 90s, 10m, 2h or 7d, not \"\(older)\".")
        }
    }

    /// All responses are selected.
    var isEmpty: Bool { url == nil && method == nil && older == nil }

    struct Response {
        let id: String
        let url: String
        let method: String
        let status: String
        /// The size of the body; nil if the response was dropped.
        let bytes: Int64?
        /// Milliseconds since the server sent or confirmed the response.
        let age: Int64
    }

    private static let fields = ["kind", "url", "method", "status", "received", "validated", "response_dropped"]

    /// The selected responses, the newest last.
    func responses(in queue: Queue) async throws -> [Response] {
        let now = try await queue.time()
        let ids = try await queue.ids(in: .completed, since: 0)
        let all = try await queue.fields(Self.fields, of: ids)
        return zip(ids, all).compactMap { id, fields in
            guard let status = fields["status"], !status.isEmpty, let address = fields["url"] else { return nil }
            let validated = fields["validated"].flatMap { Int64($0) } ?? now
            let response = Response(
                id: id, url: address, method: fields["method"] ?? "", status: status,
                bytes: (fields["response_dropped"] ?? "").isEmpty ? fields["received"].flatMap { Int64($0) } ?? 0 : nil,
                age: max(0, now - validated))
            if let method, method.uppercased() != response.method { return nil }
            if let limit = older.flatMap(Age.milliseconds), response.age < limit { return nil }
            if let url, !ListFilter.contains(address, url) { return nil }
            return response
        }
    }
}

private struct ListCache: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "list", abstract: "List the responses.")
    @OptionGroup var filter: CacheFilter

    func run() async throws {
        let queue = try await filter.common.connect()
        let responses = try await filter.responses(in: queue)
        if filter.common.json {
            for response in responses {
                Terminal.line(
                    JSON.object([
                        ("id", JSON.quoted(response.id)), ("url", JSON.quoted(response.url)),
                        ("method", JSON.quoted(response.method)), ("status", response.status),
                        ("bytes", response.bytes.map { String($0) } ?? "null"), ("age", String(response.age / 1000)),
                    ]))
            }
            return
        }
        var table = Table([
            .init(title: "ID"), .init(title: "METHOD"), .init(title: "STATUS", isNumber: true),
            .init(title: "SIZE", isNumber: true), .init(title: "AGE", isNumber: true), .init(title: "URL"),
        ])
        for response in responses {
            table.add([
                response.id, response.method, response.status, response.bytes.map(Units.bytes) ?? "dropped",
                Age.text(response.age), response.url,
            ])
        }
        for line in table.lines(width: Terminal.width) { Terminal.line(line) }
    }
}

private struct ShowCache: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "show", abstract: "Print the body of a response.")
    @OptionGroup var common: CommonOptions
    @Argument(help: "The id of its job.", completion: Completer.jobs) var id: String

    func run() async throws {
        let queue = try await common.connect()
        let record = try await queue.job(id)
        if let record, let sentence = record.droppedResponse {
            throw ExitStatus.printing(.jobFailed, "\(id): \(sentence)")
        }
        guard let record, let response = StoredResponse(hash: record.fields) else {
            throw ExitStatus.printing(.jobFailed, "\(id) has no response here")
        }
        if common.json { return Terminal.line(record.json()) }
        Terminal.write(response.text ?? Base64.encode(response.body))
    }
}

private struct SizeCache: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "size", abstract: "Count the responses, and the bytes of their bodies.",
        discussion:
            "Also the bytes that the queue keeps in all, with header fields and responses of failed jobs, and their limit: "
            + "max_responses_bytes of haul queue set.")
    @OptionGroup var filter: CacheFilter

    func run() async throws {
        let queue = try await filter.common.connect()
        let sizes = try await filter.responses(in: queue).compactMap(\.bytes)
        let bytes = sizes.reduce(0, +)
        let kept = try await queue.keptResponses()
        if filter.common.json {
            return Terminal.line(
                JSON.object([
                    ("responses", String(sizes.count)), ("bytes", String(bytes)), ("kept", String(kept.bytes)),
                    ("most", String(kept.limit)),
                ]))
        }
        Terminal.line("\(sizes.count) \(sizes.count == 1 ? "response" : "responses"), \(Units.bytes(bytes))")
        Terminal.line("the queue keeps \(Units.bytes(kept.bytes)) of at most \(Units.bytes(kept.limit))")
    }
}

private struct ClearCache: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "clear", abstract: "Delete responses, and the jobs that fetched them.",
        discussion: "Without --url, --method and --older it deletes all responses, and asks first.")
    @OptionGroup var filter: CacheFilter
    @Flag(name: .shortAndLong, help: "Do not ask before all responses are deleted.") var yes = false

    func run() async throws {
        let queue = try await filter.common.connect()
        let responses = try await filter.responses(in: queue)
        if filter.isEmpty, !responses.isEmpty {
            try Prompt.confirm("Forget all \(responses.count) responses of \(queue.name)?", isConfirmed: yes)
        }
        // A job that was pushed again meanwhile is about to get another response. A push that comes while the states are
        // read is newer than the removal.
        let timestamps = try await queue.operationTimestamps()
        let ids = try await KnownJobs.ids(responses.map(\.id), in: [.completed], of: queue)
        var change = ChangeRecord(byUser: "remove")
        let removed = try await queue.request(.removed, of: ids, at: timestamps)
        change.select(removed.ids)
        change.at = removed.timestamp
        if !removed.ids.isEmpty { await queue.record(change) }
        if filter.common.json { return Terminal.line(JSON.object([("cleared", String(removed.ids.count))])) }
        Terminal.line("\(removed.ids.count) cleared")
    }
}
