import HaulContract

extension JobRecord {
    /// The maximum number of byte intervals of a job as JSON. No page draws more.
    static let maxIntervals = 4096

    /// The one shape of a job as JSON: `haul show --json`, `haul list --json` and the API write these members with
    /// `json`. Members that events have as well have the same type and the same meaning there.
    package static let members: [JSONMember] = [
        JSONMember("id", .id, "The job's id.", isAlways: true),
        JSONMember("state", .choice(JobState.allCases.map(\.rawValue)), "The job's state.", isAlways: true),
        JSONMember(
            "ended", .flag,
            "Whether the job has ended. False as well for a completed job that still waits for replicas.",
            isAlways: true),
        JSONMember(
            "kind", .choice(Job.Kind.allCases.filter { $0 != .download }.map(\.rawValue)),
            "What the job does, unless it is a download."),
        JSONMember("method", .text, "The method of a request or an upload."),
        JSONMember("url", .text, "The first URL, without credentials, and with `[masked]` as its query."),
        JSONMember("host", .text, "The host of the first URL, in lower case."),
        JSONMember("path", .text, "The path that the job asks for."),
        JSONMember("file", .text, "The path of the file, relative to the workers' root or prefix."),
        JSONMember("content_type", .text, "The media type that the job asks for."),
        JSONMember("batch", .text, "The names of its batches, with blanks between them."),
        JSONMember("group", .id, "The group with which it takes turns for slots."),
        JSONMember("reply_to", .text, "The names of its reply lists, with blanks between them."),
        JSONMember(
            "steps", .text, "The ids of the jobs that its end has pushed (`then` or `else`), with blanks between them."),
        JSONMember("meta", .any, "The job's `meta`, as it was pushed."),
        JSONMember("received", .integer, "Bytes received so far; of an upload, bytes sent."),
        JSONMember("total", .integer, "Bytes of the whole file or response, if known; of an upload, of all its files."),
        JSONMember(
            "bytes", .integer,
            "Bytes that a completed job has transferred: the size of the file, of the response's body, or of what was sent."
        ),
        JSONMember(
            "offsets", .intervals,
            "Durable intervals of a partial file: first byte, and the byte after the last one. The first \(maxIntervals)."
        ),
        JSONMember("speed", .integer, "Bytes per second, of a running job."),
        JSONMember("attempt", .integer, "Failed attempts in a row."),
        JSONMember("crashes", .integer, "Workers that were lost while they did the job."),
        JSONMember("worker", .text, "The worker of the current run, or of the one that ended the job."),
        JSONMember(
            "waiting", .text,
            "What the job waits for: disk, store, host or replicas; of a job that no worker has seen, the host or the kind."
        ),
        JSONMember(
            "want", .text, "A control operation that no worker has applied yet: paused, cancelled, running, removed."),
        JSONMember("error", .text, "Why the job or its last attempt failed: a stable code (docs/reference/errors.md)."),
        JSONMember("message", .text, "The same as a sentence for people."),
        JSONMember(
            "failures", .attempts,
            "The last \(PastFailures.maxCount) attempts that failed, the oldest first. One without `error` was lost with its worker."
        ),
        JSONMember("retryable", .flag, "Whether the same job may succeed later."),
        JSONMember("seconds", .decimal, "How long the run that completed the job took."),
        JSONMember("unchanged", .flag, "True if a completed job found its file or its response as it was."),
        JSONMember("checksum", .text, "The digest that the file was checked against: algorithm, colon, hexadecimal."),
        JSONMember("etag", .text, "The validator of the remote file or of the response."),
        JSONMember("last_modified", .text, "The Last-Modified of the remote file."),
        JSONMember("source", .text, "The mirror that the bytes came from, masked as `url` is."),
        JSONMember("status", .integer, "The status of the response to a request or an upload."),
        JSONMember(
            "headers", .headers, "The response's header fields, with names in lower case. Operators only.",
            isResponse: true),
        JSONMember("body", .text, "The response's body, if it is text. Operators only.", isResponse: true),
        JSONMember(
            "body_base64", .text, "The response's body in base 64, if it is not text. Operators only.",
            isResponse: true),
        JSONMember(
            "response_dropped", .flag, "True if the response was dropped, because the queue keeps enough of them."),
        JSONMember("files", .files, "Of an upload that sends each of its files by itself: the result of each."),
        JSONMember("created", .integer, "Unix milliseconds at which the job was pushed."),
        JSONMember("started", .integer, "Unix milliseconds at which the job began to run."),
        JSONMember("updated", .integer, "Unix milliseconds at which the job was last written."),
        JSONMember("finished", .integer, "Unix milliseconds at which the job ended."),
        JSONMember(
            "timestamp", .integer,
            "Unix milliseconds at which a scheduled job is due; of other jobs only in lists, when it got into its state."
        ),
        JSONMember("deadline_at", .integer, "Unix milliseconds by which the job must be done."),
        JSONMember(
            "settled_until", .integer,
            "Unix milliseconds up to which all pushes of the job are done: docs/reference/ordering.md, \"Clocks\"."),
        JSONMember("epoch", .integer, "With seq, the position of its last event."),
        JSONMember("seq", .integer, "With epoch, the position of its last event."),
    ]

    /// Members that a server sent, which events have as well.
    package static let responseMembers = Set(members.filter(\.isResponse).map(\.name))

    /// The job as a JSON object, with those of `members` that apply. A field of the hash that does not have
    /// the type of its member is left out, since any client may write into a hash.
    ///
    /// - Parameters:
    ///   - showsResponse: Include the header fields and the body of a response.
    ///   - timestamp: When the job got into its state, for a list.
    package func json(showsResponse: Bool = true, timestamp: Int64? = nil) -> String {
        var json = JSONObject()
        for member in Self.members where showsResponse || !member.isResponse {
            switch member.name {
            case "id": json.set("id", id)
            case "state": json.set("state", state.rawValue)
            case "ended": json.set("ended", hasEnded)
            case "host": json.set("host", self["url"].flatMap(MaskedURL.host))
            // The hash counts the bytes of a completed job as received.
            case "bytes": json.set("bytes", state == .completed ? integer("received") : nil)
            // Nothing may have come before a failure.
            case "received": json.set("received", integer("received") ?? (state == .failed ? 0 : nil))
            case "speed": json.set("speed", state == .running ? integer("speed") : nil)
            case "timestamp": json.set("timestamp", dueAt ?? timestamp)
            case "response_dropped": json.set("response_dropped", json: self["response_dropped"].map { _ in "true" })
            case "offsets": json.set("offsets", json: intervals)
            default: json.set(member.name, json: self[member.name].flatMap { member.kind.json($0) })
            }
        }
        return json.text
    }

    private var intervals: String? {
        guard !offsets.isEmpty else { return nil }
        let pairs = offsets.intervals.prefix(Self.maxIntervals).map { "[\($0.lowerBound),\($0.upperBound)]" }
        return "[\(pairs.joined(separator: ","))]"
    }
}
