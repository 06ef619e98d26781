import ArgumentParser
import Glibc
import HaulBus
import HaulContract
import HaulDirect
import HaulHTTP
import HaulRedis
import HaulTerminal

struct CallCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "call", _superCommandName: "haul", abstract: "Send requests, and print the responses.",
        discussion: """
            Options are named as in curl. Without a queue the request is sent from here, without Redis: --direct. \
            With --queue or HAUL_QUEUE a worker sends it, from its network and by its rules.

            Exit status: 0 all responses are as expected, 1 one is missing or is not, 2 usage, 3 Redis cannot be used, \
            130 interrupted. A POST or PATCH is sent once, unless --idempotent says that it may be repeated.
            """)

    @Argument(help: "URLs, with https:// if they have no scheme.") var urls: [String]
    @Option(name: [.customShort("X", allowingJoined: true), .long], help: "The method; GET, or POST with a body.")
    var request: String?
    @Option(
        name: [.customShort("d", allowingJoined: true), .long],
        help:
            "The body, as a browser's form. May be repeated. @FILE reads a file without its line ends, @- standard input."
    )
    var data: [String] = []
    @Option(
        help: "A field of a form, which is encoded: NAME=VALUE, VALUE, =VALUE, NAME@FILE or @FILE. May be repeated.")
    var dataUrlencode: [String] = []
    @Option(help: "The body as bytes. @FILE reads a file.") var dataBinary: String?
    @Option(help: "The body as JSON. @FILE reads a file. Several are joined.") var json: [String] = []
    @Option(
        name: [.customShort("F", allowingJoined: true), .long],
        help:
            "A part of a form, multipart/form-data: NAME=VALUE or NAME=@FILE, which may end in ;type=…;filename=…. May be repeated."
    )
    var form: [String] = []
    @Option(help: "A field NAME=VALUE of the query. May be repeated.") var query: [String] = []
    @Flag(
        name: [.customShort("G"), .customLong("get")],
        help: "Send the texts of --data and --data-urlencode in the query, by GET.")
    var isInQuery = false
    @Flag(name: [.customShort("I"), .long], help: "Request only the header fields (HEAD).") var head = false
    @Flag(name: [.short, .long], help: "Print the status and the header fields, too.") var include = false
    @Option(
        name: [.customShort("D", allowingJoined: true), .long],
        help: "Write the status and the header fields into this file, or - for standard output.", completion: .file(),
        transform: Terminal.outputPath)
    var dumpHeader: String?
    @Option(
        name: [.customShort("o", allowingJoined: true), .long],
        help: "Write the body into this file, or - for standard output. May be repeated: one for each URL.",
        completion: .file(), transform: Terminal.outputPath)
    var output: [String] = []
    @Flag(name: [.customShort("f"), .long], help: "Print no body of a response that is not expected.") var fail = false
    @Flag(name: .shortAndLong, help: "Print addresses, TLS, redirects and times on standard error.") var verbose = false
    @Option(
        name: [.customShort("w", allowingJoined: true), .long],
        help: "Print this after each response, with curl's variables: %{http_code}, %{time_total}, %header{etag}, \\n.")
    var writeOut: String?
    @Option(help: "Statuses that are a success: like 200-299,404.") var expect: String?
    @Flag(help: "The request may be sent again, because the server recognizes a repetition by its Idempotency-Key.")
    var idempotent = false
    @Option(help: "Attempts after the first. [none; a worker's are 5]") var retries: Int?
    @Option(help: "Seconds for a connection.") var connectTimeout: Double?
    @Option(name: [.customShort("m", allowingJoined: true), .long], help: "Seconds within which it must be done.")
    var maxTime: Double?
    @OptionGroup(title: "Servers") var servers: RequestOptions
    @OptionGroup(title: "Through a queue") var bus: CallQueueOptions

    /// Whether this process sends the requests.
    private var isDirect: Bool { bus.direct || !bus.isNamed }

    func validate() throws {
        guard !bus.direct || !bus.isGiven else {
            throw ValidationError("--direct sends from here, and the options for a queue let a worker send: give one.")
        }
        guard output.count < 2 || output.count == urls.count else {
            throw ValidationError(
                "Several -o name one file for each URL: give as many, not \(output.count) for \(urls.count).")
        }
        let files = output.filter { $0 != "-" && $0 != "/dev/null" }
        guard Set(files).count == files.count else {
            throw ValidationError("Two -o name the same file, which would keep only the last body: give each its own.")
        }
        guard !head || isInQuery || !body(limit: 0).isGiven else {
            throw ValidationError(
                "-I requests only the header fields, and such a request has no body: leave out -I, or send the data in the query with -G."
            )
        }
        guard !isInQuery || json.isEmpty && dataBinary == nil && form.isEmpty else {
            throw ValidationError(
                "-G sends the texts of -d and --data-urlencode in the query, and no body: leave out --json, --data-binary and -F."
            )
        }
        // A worker's limit is `deadline` of the job, which has bounds of its own.
        guard maxTime.map({ (0.1...86400).contains($0) }) ?? true || !isDirect else {
            throw ValidationError("--max-time must be from 0.1 to 86400 seconds, not \(maxTime ?? 0).")
        }
        guard isDirect || output.count < 2, isDirect || !verbose && writeOut == nil && dumpHeader == nil
        else {
            throw ValidationError(
                "Several -o, -v, -w and -D are for requests from here: leave out the queue, or give --direct.")
        }
    }

    func run() async throws {
        if isDirect { return try await sendDirectly() }
        if bus.id != nil, urls.count > 1 { throw wrong("--id names one call, but several URLs are given") }
        let (members, query) = (try members(), try queryText())
        let credentials = try GetCredentials(servers)
        let elements = try urls.map { try element(credentials.apply(to: target($0, query)), members) }
        var common = CommonOptions()
        (common.redis, common.queue, common.json) = (bus.redis, bus.queue, false)
        // Before anything is pushed: a response that cannot be written would be lost.
        let path = output.first { $0 != "-" }
        let isNew = path.map { access($0, F_OK) != 0 } ?? false
        let file = try path.map(open)
        // Without a body a file stays as it was.
        var hasBody = false
        defer { if isNew, !hasBody, let path { unlink(path) } }
        let queue = try await common.connect(
            hint: " With a queue haul call requires Redis and a running worker; --direct does not")
        if bus.wait {
            _ = try await queue.jobs(elements.map(\.id))
        }
        let pushed = try await queue.push(now: elements)
        guard bus.wait else {
            for element in elements { Terminal.line(element.id) }
            return
        }
        let ends = try await CallEnds(queue: queue, pushed: pushed).wait()
        var hasFailed = false
        for (url, element) in zip(urls, elements) {
            guard let end = ends[element.id] else { continue }
            let isDone = try print(end, of: MaskedURL.text(url)) { body in
                if let file, !hasBody { ftruncate(file, 0) }
                hasBody = true
                try write(body, to: file ?? STDOUT_FILENO)
            }
            if !isDone { hasFailed = true }
        }
        if hasFailed { throw ExitStatus.jobFailed }
    }

    private func sendDirectly() async throws {
        let content = isInQuery ? nil : try body(limit: Self.maxBody).content()
        let (members, query) = (try members(content: content, isDirect: true), try queryText())
        let requests = try urls.enumerated().map { index, url in
            var job = try job(target(url, query), members)
            content?.set(in: &job)
            if content != nil, request == nil { job.method = "POST" }
            return DirectCall.Request(job: job, output: output.count > 1 ? output[index] : output.first)
        }
        var options = DirectCall.Options()
        options.includesHead = include || head
        options.headOutput = dumpHeader
        (options.hidesFailures, options.isVerbose, options.writeOut) = (fail, verbose, writeOut)
        (options.retries, options.connectTimeout, options.maxTime) = (retries, connectTimeout, maxTime)
        try await DirectCall(requests, servers, options).run()
    }

    /// The job of a request that this process sends, without its body.
    private func job(_ url: String, _ members: [(name: String, value: String)]) throws -> Job {
        // A job that may have a body needs an id.
        let all = [
            ("kind", JSON.quoted(Job.Kind.request.rawValue)), ("url", JSON.quoted(url)),
            ("id", JSON.quoted("call-" + Token.make())),
        ]
        do {
            let job = try Job(json: try JSON(JSON.object(all + members.map { ($0.name, $0.value) })))
            if let bad = job.unreadableURL { throw wrong("url: \(bad) has an invalid host name") }
            return job
        } catch let error as Job.Invalid {
            throw wrong(error.field == "url" ? "\(error) (\(MaskedURL.keepingQuery(url)))" : "\(error)")
        } catch let error as JSON.SyntaxError {
            throw wrong("the job would not be valid: \(error)")
        }
    }

    /// The data of `--get`. It is read once for all URLs, because it may be standard input.
    private func queryText() throws -> String {
        isInQuery ? try body(limit: JobField.maxElementBytes).query() : ""
    }

    /// The whole URL, with a scheme and with `query`.
    private func target(_ given: String, _ query: String) -> String {
        let url = URLRule.hasScheme(given) ? given : "https://" + given
        guard !query.isEmpty else { return url }
        // Nothing behind a "#" is sent.
        let sent = url.prefix { $0 != "#" }
        return sent + (sent.contains("?") ? "&" : "?") + query + url[sent.endIndex...]
    }

    /// The header fields that a request has by default.
    private static let lastingFields: Set = [
        "accept", "accept-encoding", "content-length", "content-type", "host", "user-agent",
    ]

    /// Bytes of a body that this process sends: it is in memory.
    private static let maxBody = 256 << 20

    private func body(limit: Int) -> CallBody {
        CallBody(data: data, encoded: dataUrlencode, json: json, binary: dataBinary, form: form, limit: limit)
    }

    /// Prints the result of a call. Returns whether the call was a success.
    private func print(
        _ end: Result<JobRecord, CallEnds.Absence>, of url: String, write: ([UInt8]) throws -> Void
    ) throws -> Bool {
        let record: JobRecord
        switch end {
        case .success(let found): record = found
        case .failure(.rejected(let reason)):
            Terminal.printError("haul: \(url): rejected: \(reason)")
            return false
        case .failure(.removed):
            Terminal.printError("haul: \(url): the job was removed")
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
            if record.state == .completed || !fail { try write(response.body) }
        }
        if let sentence = record.droppedResponse { Terminal.printError("haul: \(url): \(sentence)") }
        if record.state != .completed {
            let why = record["error"].map { "\($0): \(record["message"] ?? "")" } ?? "it was cancelled"
            Terminal.printError("haul: \(url): \(why)".printable)
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

    private func wrong(_ sentence: String) -> ExitStatus { .printing(.usage, "\(sentence). Nothing was sent.") }

    private func element(_ url: String, _ members: [(name: String, value: String)]) throws -> Element {
        var all =
            [
                ("kind", JSON.quoted(Job.Kind.request.rawValue)),
                ("url", JSON.quoted(url)),
            ]
            + members
        do {
            if bus.id == nil {
                // With `--fresh-for` equal requests have equal ids, so that a kept response can answer them. Without it
                // each call has an id of its own.
                let own = bus.freshFor == nil ? Token.make() : ""
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
            throw wrong(error.field == "url" ? "\(error) (\(MaskedURL.keepingQuery(url)))" : "\(error)")
        } catch let error as JSON.SyntaxError {
            throw wrong("the job would not be valid: \(error)")
        }
    }

    /// The members of a job that a worker does.
    private func members() throws -> [(name: String, value: String)] {
        try bus.check(servers)
        let content = isInQuery ? nil : try body(limit: JobField.maxElementBytes).content()
        let more = try members(content: content, isDirect: false)
        return [content?.member].compactMap(\.self) + more
    }

    private func members(content: CallBody.Content?, isDirect: Bool) throws -> [(name: String, value: String)] {
        var result: [(name: String, value: String)] = []
        func add(_ name: String, _ text: String?) { if let text { result.append((name, text)) } }
        add("method", (request ?? (head ? "HEAD" : nil)).map(JSON.quoted))
        var fields = try servers.headers().compactMap { line in
            // As in curl: "Name:" removes a field, and "Name;" sends it without a value.
            if line.hasSuffix(";"), !line.contains(":") { return (String(line.dropLast()), "") }
            let parts = line.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            guard parts.count == 2 else { throw wrong("--header must be \"Name: value\", not \"\(line)\"") }
            let (name, value) = (String(parts[0]), String(parts[1].drop { $0 == " " }))
            guard value.isEmpty else { return (name, value) }
            guard !Self.lastingFields.contains(name.lowercased()) else {
                throw wrong("-H '\(line)': every request has this field here. Give it a value instead of removing it")
            }
            return nil
        }
        func addField(_ name: String, _ value: String) {
            if !fields.contains(where: { $0.0.lowercased() == name.lowercased() }) { fields.append((name, value)) }
        }
        if let agent = servers.userAgent { addField("User-Agent", agent) }
        if !isDirect {
            if let bearer = servers.bearer { addField("Authorization", "Bearer \(bearer)") }
            if !servers.cookie.isEmpty { addField("Cookie", servers.cookie.joined(separator: "; ")) }
        }
        switch content {
        case .text: addField("Content-Type", "application/x-www-form-urlencoded")
        case .bytes(_, let type): addField("Content-Type", type)
        case .json, .fields, nil: break
        }
        if !fields.isEmpty { add("headers", try NamedValue.headers(fields, of: "--header")) }
        if !query.isEmpty {
            let pairs = try query.map(NamedValue.parts)
            add("query", try NamedValue.object(pairs, of: "--query", "write the second one into the URL"))
        }
        add(
            "expect",
            expect.map { text in
                let parts = text.split(separator: ",").map { Int($0).map { String($0) } ?? JSON.quoted(String($0)) }
                return "[" + parts.joined(separator: ",") + "]"
            })
        // The body of an error, which is kept in memory before it is printed.
        let maxResponse = isDirect ? Int64(Job.Request.maxResponse) : bus.maxResponse?.bytes
        add("max_response", maxResponse.map { String($0) })
        if idempotent { add("idempotent", "true") }
        add("retries", retries.map { String($0) })
        for (name, seconds) in [
            ("fresh_for", bus.freshFor), ("connect_timeout", connectTimeout), ("deadline", isDirect ? nil : maxTime),
        ] {
            guard seconds?.isFinite ?? true else { throw wrong("\(name) must be a number of seconds") }
            add(name, seconds.map { String($0) })
        }
        add("id", bus.id.map(JSON.quoted))
        add("reply_to", bus.replyTo.map(JSON.quoted))
        return result
    }
}
