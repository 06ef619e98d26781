import HaulBus
import HaulContract

// Converts jobs to and from the format of aria2's RPC: docs/operate/aria2.md.

extension Aria2 {
    /// The fields of a job's hash that are converted.
    static let fields = [
        "state", "url", "path", "file", "received", "total", "speed", "error", "message", "attempt", "created",
        "worker",
    ]

    /// A job as a download of aria2. All values are strings, and the gid is the id of the job.
    ///
    /// - Parameters:
    ///   - fields: The fields of the job's hash; empty if no worker has claimed it.
    ///   - keys: The requested members; empty for all.
    static func download(_ job: ListedJob, _ state: JobState, _ fields: [String: String], keys: Set<String>) -> String {
        func number(_ name: String) -> String { String(max(0, fields[name].flatMap { Int64($0) } ?? 0)) }
        let url = fields["url"] ?? job.maskedURL ?? ""
        let path = fields["file"] ?? fields["path"] ?? url.split(separator: "/").last.map(String.init) ?? ""
        let received = number("received")
        let total = fields["total"] == nil ? (state == .completed ? received : "0") : number("total")
        var file = JSONObject()
        file.set("index", "1")
        file.set("path", path)
        file.set("length", total)
        file.set("completedLength", received)
        file.set("selected", "true")
        file.set("uris", json: uris(url))
        var members: [(String, String)] = [
            ("gid", JSON.quoted(job.id)), ("status", JSON.quoted(status(of: state))),
            ("totalLength", JSON.quoted(total)),
            ("completedLength", JSON.quoted(received)), ("uploadLength", "\"0\""),
            ("downloadSpeed", JSON.quoted(state == .running ? number("speed") : "0")), ("uploadSpeed", "\"0\""),
            ("connections", state == .running ? "\"1\"" : "\"0\""), ("dir", "\"\""), ("numPieces", "\"1\""),
            ("pieceLength", JSON.quoted(total)), ("bitfield", state == .completed ? "\"80\"" : "\"00\""),
            ("files", "[\(file.text)]"),
        ]
        if state == .failed || state == .completed || state == .cancelled {
            members.append(
                (
                    "errorCode",
                    JSON.quoted(state == .failed ? code(fields["error"] ?? "") : state == .completed ? "0" : "31")
                ))
            members.append(("errorMessage", JSON.quoted(state == .failed ? fields["message"] ?? "" : "")))
        }
        return members.filter { keys.isEmpty || keys.contains($0.0) }
            .reduce(into: JSONObject()) { $0.set($1.0, json: $1.1) }.text
    }

    static func uris(_ url: String) -> String {
        #"[{"uri":\#(JSON.quoted(url)),"status":"used"}]"#
    }

    private static func status(of state: JobState) -> String {
        switch state {
        case .running: "active"
        case .queued, .scheduled: "waiting"
        case .paused: "paused"
        case .completed: "complete"
        case .failed: "error"
        case .cancelled: "removed"
        }
    }

    /// The exit status of aria2 (aria2c(1)) for an error code.
    private static func code(_ error: String) -> String {
        switch error {
        case "stalled", "deadline": "2"
        case "http_404", "http_410": "3"
        case "too_slow": "5"
        case "connect", "incomplete": "6"
        case "file_exists": "13"
        case "io": "9"
        case "permission", "path_forbidden": "16"
        case "dns": "19"
        case "too_many_redirects": "23"
        case "http_401", "http_403": "24"
        case "checksum_mismatch": "32"
        case "bad_response": "22"
        case _ where error.hasPrefix("http_"): "22"
        default: "1"
        }
    }

    /// The element to push for `aria2.addUri`. Options without a counterpart are ignored, because clients of aria2 send
    /// all options that they know.
    static func element(_ uris: [String], _ options: JSON?) throws(Failure) -> Element {
        func option(_ name: String) -> String? { options?[name]?.string.flatMap { $0.isEmpty ? nil : $0 } }
        var members = JSONObject()
        let gid = option("gid") ?? String(Token.make().prefix(16))
        guard gid.utf8.count == 16, Hexadecimal.bytes(gid) != nil else {
            throw Failure("gid must be 16 hexadecimal digits, not \(JSON.quoted(gid))")
        }
        members.set("id", gid.lowercased())
        if uris.count == 1 { members.set("url", uris[0]) } else { members.set("urls", json: list(uris)) }
        let directory = option("dir").map { $0.hasSuffix("/") ? $0 : $0 + "/" } ?? ""
        if let path = option("out").map({ directory + $0 }) ?? (directory.isEmpty ? nil : directory) {
            members.set("path", path)
        }
        if let checksum = option("checksum") {
            let parts = checksum.split(separator: "=", maxSplits: 1).map(String.init)
            guard parts.count == 2 else { throw Failure("checksum must be like sha-256=HEX") }
            members.set("checksum", parts[0].filter { $0 != "-" } + ":" + parts[1])
        }
        if let count = (option("split") ?? option("max-connection-per-server")).flatMap({ Int64($0) }) {
            members.set("connections", min(max(1, count), 16))
        }
        if let rate = option("max-download-limit").flatMap(bytes), rate > 0 { members.set("limit_rate", rate) }
        if let tries = option("max-tries").flatMap({ Int64($0) }), tries > 0 {
            members.set("retries", min(tries - 1, 1000))
        }
        if option("allow-overwrite") == "true" {
            members.set("if_exists", "overwrite")
        } else if option("auto-file-renaming") == "true" {
            members.set("if_exists", "rename")
        }
        var headers = JSONObject()
        var names: Set<String> = []
        func add(_ name: String, _ value: String) {
            if names.insert(name.lowercased()).inserted { headers.set(name, value) }
        }
        let lines = options?["header"]?.array?.compactMap(\.string) ?? option("header").map { [$0] } ?? []
        for line in lines.flatMap({ $0.split(separator: "\n") }) {
            let parts = line.split(separator: ":", maxSplits: 1)
            if parts.count == 2 { add(String(parts[0]), String(parts[1].drop { $0 == " " })) }
        }
        if let agent = option("user-agent") { add("User-Agent", agent) }
        if let referer = option("referer") { add("Referer", referer == "*" ? uris[0] : referer) }
        if !names.isEmpty { members.set("headers", json: headers.text) }
        do { return try Element(JSON(members.text)) } catch let error as Job.Invalid {
            throw Failure("\(error)")
        } catch { throw Failure("\(error)") }
    }

    static func list(_ texts: [String]) -> String { "[\(texts.map(JSON.quoted).joined(separator: ","))]" }

    /// A number of bytes in aria2's notation: `500K` and `1M` are units of 1024.
    static func bytes(_ text: String) -> Int64? {
        let factor: Int64 =
            switch text.last {
            case "K", "k": 1 << 10
            case "M", "m": 1 << 20
            default: 1
            }
        return Int64(factor == 1 ? text[...] : text.dropLast()).flatMap { number in
            let (product, isTooLarge) = number.multipliedReportingOverflow(by: factor)
            return isTooLarge ? nil : product
        }
    }
}
