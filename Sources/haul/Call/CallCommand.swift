import ArgumentParser
import Glibc
import HaulBus
import HaulContract
import HaulHTTP
import HaulRedis
import HaulTerminal

struct CallCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "call", abstract: "Let a worker send requests, and print the responses.",
        discussion: """
            Options are named as in curl. The exit status is 1 if a response is missing or not as expected.
            A POST or PATCH is sent once. Even if the worker dies, it is not sent again without --idempotent.
            """)

    @Option(name: .long, help: CommonOptions.redisHelp) var redis: String?
    @Option(name: .long, help: "The queue. [HAUL_QUEUE, else default]", completion: Completer.queues) var queue: String?
    @Argument(help: "URLs.") var urls: [String]
    @Option(name: [.customShort("X", allowingJoined: true), .long], help: "The method; GET, or POST with a body.")
    var request: String?
    @Option(
        name: [.customShort("H", allowingJoined: true), .long], help: "A header, \"Name: value\". May be repeated.")
    var header: [String] = []
    @Option(
        name: [.customShort("d", allowingJoined: true), .long],
        help: "The body, as a browser's form. May be repeated. @FILE reads a file, @- standard input.")
    var data: [String] = []
    @Option(help: "A field NAME=VALUE of a form, which is encoded. May be repeated.") var dataUrlencode: [String] = []
    @Option(help: "The body as bytes. @FILE reads a file.") var dataBinary: String?
    @Option(help: "The body as JSON. @FILE reads a file.") var json: String?
    @Option(help: "A field NAME=VALUE of the query. May be repeated.") var query: [String] = []
    @Flag(name: [.customShort("I"), .long], help: "Request only the header fields (HEAD).") var head = false
    @Flag(name: [.short, .long], help: "Print the status and the header fields, too.") var include = false
    @Option(name: [.short, .long], help: "Write the body into this file.", completion: .file()) var output: String?
    @Option(
        name: [.customShort("u", allowingJoined: true), .long],
        help: "USER:PASSWORD, by Basic or Digest authentication.")
    var user: String?
    @Option(name: [.customShort("A", allowingJoined: true), .long], help: "The User-Agent.") var userAgent: String?
    @Option(help: "Statuses that are a success: like 200-299,404.") var expect: String?
    @Option(help: "The largest response that is accepted, in bytes, at most 1M.") var maxResponse: ByteCount?
    @Flag(help: "The request may be sent again, because the server recognizes a repetition by its Idempotency-Key.")
    var idempotent = false
    @Option(help: "Seconds for which an earlier response to the same request is used.") var freshFor: Double?
    @Option(help: "Attempts after the first.") var retries: Int?
    @Option(help: "Seconds for a connection.") var connectTimeout: Double?
    @Option(name: [.customShort("m", allowingJoined: true), .long], help: "Seconds within which it must be done.")
    var maxTime: Double?
    @Option(help: "The job's id.") var id: String?
    @Option(help: "Also push the final event onto this reply list.") var replyTo: String?
    @Flag(inversion: .prefixedNo, help: "Wait for the response.") var wait = true

    func run() async throws {
        if id != nil, urls.count > 1 { throw wrong("--id names one call, but several URLs are given") }
        let members = try members()
        let elements = try urls.map { try element($0, members) }
        var common = CommonOptions()
        (common.redis, common.queue, common.json) = (redis, queue, false)
        // Before anything is pushed: a response that cannot be written would be lost.
        let file = try output.map(open)
        let bus = try await common.connect(hint: " haul call requires Redis and a running worker")
        if wait { _ = try await printingErrors { () throws(RedisError) in try await bus.jobs(elements.map(\.id)) } }
        let pushed = try await printingErrors { () throws(RedisError) in try await bus.push(now: elements) }
        guard wait else {
            for element in elements { Terminal.line(element.id) }
            return
        }
        let ends = try await CallEnds(queue: bus, pushed: pushed).wait()
        var hasFailed = false
        if let file { ftruncate(file, 0) }
        for (url, element) in zip(urls, elements) {
            if let end = ends[element.id], try !print(end, of: MaskedURL.text(url), to: file) { hasFailed = true }
        }
        if hasFailed { throw ExitStatus.jobFailed }
    }

    /// Prints the result of a call. Returns whether the call was a success.
    private func print(
        _ end: Result<JobRecord, CallEnds.Absence>, of url: String, to file: Int32?
    ) throws -> Bool {
        let record: JobRecord
        switch end {
        case .success(let found): record = found
        case .failure(.rejected(let reason)):
            Terminal.complain("haul: \(url): rejected: \(reason)")
            return false
        case .failure(.removed):
            Terminal.complain("haul: \(url): the job was removed")
            return false
        }
        if let response = StoredResponse(hash: record.fields) {
            if include || head {
                Terminal.line("HTTP \(response.status)")
                for header in response.headers {
                    for value in header.value.split(separator: "\n") {
                        Terminal.line("\(header.name): \(value)".printable)
                    }
                }
                Terminal.line("")
            }
            try write(response.body, to: file ?? STDOUT_FILENO)
        }
        if let sentence = record.droppedResponse { Terminal.complain("haul: \(url): \(sentence)") }
        if record.state != .completed {
            let why = record["error"].map { "\($0): \(record["message"] ?? "")" } ?? "it was cancelled"
            Terminal.complain("haul: \(url): \(why)".printable)
        }
        return record.state == .completed
    }

    private func open(_ path: String) throws -> Int32 {
        let descriptor = Glibc.open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0o666)
        guard descriptor >= 0 else {
            throw ExitStatus.printing(.usage, "\(path) cannot be written: \(String(cString: strerror(errno)))")
        }
        return descriptor
    }

    /// Writes the bytes unchanged, even if they are not printable, because the caller requires the body as it is.
    private func write(_ bytes: [UInt8], to descriptor: Int32) throws {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
            if count < 0, errno == EINTR { continue }
            if count < 0, errno == EAGAIN {
                var output = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
                poll(&output, 1, -1)
                continue
            }
            guard count > 0 else {
                throw ExitStatus.printing(
                    .jobFailed, "the response cannot be written: \(String(cString: strerror(errno)))")
            }
            rest = rest.dropFirst(count)
        }
    }

    // MARK: The job

    private func wrong(_ sentence: String) -> ExitStatus { .printing(.usage, "\(sentence). Nothing was pushed.") }

    private func element(_ url: String, _ members: [(name: String, value: String)]) throws -> Element {
        var target = url
        if let user {
            guard let start = url.byteRange(of: "://")?.upperBound else {
                throw wrong("\(url) must begin with http:// or https://")
            }
            target = String(url[..<start]) + Self.encoded(user) + "@" + url[start...]
        }
        var all = [("kind", JSON.quoted(Job.Kind.request.rawValue)), ("url", JSON.quoted(target))] + members
        do {
            if id == nil {
                // With `--fresh-for` equal requests have equal ids, so that a kept response can answer them. Without it
                // each call has an id of its own.
                let own = freshFor == nil ? Token.make() : ""
                let terms: Set = ["fresh_for", "retries", "connect_timeout", "deadline", "reply_to", "max_response"]
                let text = JSON.object(all.filter { !terms.contains($0.0) }.map { ($0.0, $0.1) })
                all.insert(
                    ("id", JSON.quoted("call-" + Job.Checksum.Algorithm.sha256.hexadecimal(of: text + own).prefix(32))),
                    at: 0)
            }
            let json = try JSON(JSON.object(all))
            if let bad = try Job(json: json).unreadableURL { throw wrong("url: \(bad) has an invalid host name") }
            return try Element(json)
        } catch let error as Job.Invalid {
            throw wrong(error.field == "url" ? "\(error) (\(MaskedURL.shown(url)))" : "\(error)")
        }
    }

    /// User and password for a URL. All characters with a meaning in URLs are percent-encoded.
    private static func encoded(_ login: String) -> String {
        login.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            .map { PercentEncoding.component(String($0)) }.joined(separator: ":")
    }

    private func members() throws -> [(name: String, value: String)] {
        var result = try CallBody(data: data, encoded: dataUrlencode, json: json, binary: dataBinary).members()
        func add(_ name: String, _ text: String?) { if let text { result.append((name, text)) } }
        add("method", (request ?? (head ? "HEAD" : nil)).map(JSON.quoted))
        var fields = try header.map { line in
            let parts = line.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            guard parts.count == 2 else { throw wrong("--header must be \"Name: value\", not \"\(line)\"") }
            return (String(parts[0]), String(parts[1].drop { $0 == " " }))
        }
        func addField(_ name: String, _ value: String) {
            if !fields.contains(where: { $0.0.lowercased() == name.lowercased() }) { fields.append((name, value)) }
        }
        if let userAgent { addField("User-Agent", userAgent) }
        if !data.isEmpty { addField("Content-Type", "application/x-www-form-urlencoded") }
        if !fields.isEmpty { add("headers", JSON.object(fields.map { ($0.0, JSON.quoted($0.1)) })) }
        if !query.isEmpty {
            add("query", JSON.object(try query.map(NamedValue.parts).map { ($0.0, JSON.quoted($0.1)) }))
        }
        add(
            "expect",
            expect.map { text in
                let parts = text.split(separator: ",").map { Int($0).map { String($0) } ?? JSON.quoted(String($0)) }
                return "[" + parts.joined(separator: ",") + "]"
            })
        add("max_response", maxResponse.map { String($0.bytes) })
        if idempotent { add("idempotent", "true") }
        add("retries", retries.map { String($0) })
        for (name, seconds) in [
            ("fresh_for", freshFor), ("connect_timeout", connectTimeout), ("deadline", maxTime),
        ] {
            guard seconds?.isFinite ?? true else { throw wrong("\(name) must be a number of seconds") }
            add(name, seconds.map { String($0) })
        }
        add("id", id.map(JSON.quoted))
        add("reply_to", replyTo.map(JSON.quoted))
        return result
    }
}
