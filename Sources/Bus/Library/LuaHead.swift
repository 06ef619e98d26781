import HaulContract

/// The beginning of the Lua library: the contract's fields, limits and keys as tables, the names that the files of Lua/
/// share, and the functions that read a job's hash.
enum LuaHead {
    static let text = constants + names + reads

    private static var constants: String {
        let fields = JobField.all.map { field in
            let kinds = Job.Kind.allCases.filter(field.kinds.contains).map { "\($0.rawValue) = true" }
            return
                "  { '\(field.name)', \(check(field.kind)), [[\(field.rule)]], { \(kinds.joined(separator: ", ")) } }"
        }
        let kinds = Job.Kind.allCases.map { "\($0.rawValue) = [[\(JobField.inapplicableRule($0))]]" }
        let prefixes = JobField.limitPrefixes.map { "\($0) = true" }
        let inRequests = JobField.forbiddenInRequests.sorted().map { "['\($0)'] = true" }
        let headers = JobField.forbiddenHeaders.sorted().map { "['\($0)'] = true" }
        let keys =
            KeyName.allCases.map { "\($0) = '\($0.rawValue)'" }
            + ChannelName.allCases.map { "\($0) = '\($0.rawValue)'" }
        let continuation = JobField.continuation.sorted().map { "\($0) = true" }
        let mayHaveDefault = JobField.all.filter(\.mayHaveDefault).map { "\($0.name) = true" }
        let digits = Job.Checksum.Algorithm.allCases.map { "\($0.rawValue) = \($0.hexadecimalDigits)" }
        let faults = FieldFault.allCases.map { "\($0.rawValue) = [[\($0.text)]]" }
        let events = Job.Notify.Event.allCases.map(\.rawValue)
        let final = JobState.allCases.filter(\.isFinal).map { "\($0.rawValue) = true" }
        return """
            local LARGEST = { element = \(JobField.maxElementBytes), element_rule = [[\(JobField.elementRule)]],
              skeleton = \(JobField.maxSkeletonBytes), skeleton_rule = [[\(JobField.skeletonRule)]],
              depth = \(JSON.deepest), default = \(JobField.maxDefaultBytes), headers = \(JobField.maxHeaders),
              batch = \(Job.Batch.maxSize), schedule = \(Schedule.maxBytes), published = \(Settlement.maxPublished), logged = \(Settlement.maxLogged), replies = \(Settlement.maxReplies) }
            local KEY = { \(keys.joined(separator: ", ")) }
            local TIMESTAMPS = { min = \(JobField.timestamps.lowerBound), max = \(JobField.timestamps.upperBound),
              rule = [[\(JobField.timestampRule)]] }
            local KEPT = { min = \(QueueSetting.retention.lowerBound), max = \(QueueSetting.retention.upperBound),
              events = \(QueueSetting.maxEvents), responses = \(QueueSetting.defaultResponsesBytes), replies = \(QueueSetting.defaultRepliesBytes) }
            local OWN_HEADERS = { \(headers.joined(separator: ", ")) }
            local OWN_PREFIX = '\(JobField.forbiddenPrefix)'
            -- About kinds of jobs. `rules`: the reason for rejecting a field that a kind does not have. `faults`: the
            -- reasons of which faults.lua chooses one. `digits`: how many hexadecimal digits a digest has.
            -- `limit_prefixes`: how the names of fields begin that are refused if they are unknown.
            local KIND = { faults = { \(faults.joined(separator: ", ")) },
              digits = { \(digits.joined(separator: ", ")) },
              limit_prefixes = { \(prefixes.joined(separator: ", ")) }, limit_rule = [[\(JobField.unknownLimitRule)]],
              shown_name = \(JobField.shownName),
              rules = { \(kinds.joined(separator: ", ")) },
              all = '\(Job.Kind.allCases.map(\.rawValue).joined(separator: " "))', body_rule = [[\(JobField.bodyRule)]],
              not_in_requests = { \(inRequests.joined(separator: ", ")) }, max_files = \(Job.Upload.maxFiles), max_steps = \(Job.Step.maxCount),
              notify = { max_url = \(Job.Notify.maxURL), events = { \(events.map { "'\($0)'" }.joined(separator: ", ")) },
                is_event = { \(events.map { "\($0) = true" }.joined(separator: ", ")) } },
              upload = { file = [[\(Job.Upload.fileRule)]], each = [[\(Job.Upload.eachRule)]],
                form = [[\(Job.Upload.formRule)]], protocol = [[\(Job.Upload.protocolRule)]] } }
            local MAY_HAVE_DEFAULT = { \(mayHaveDefault.joined(separator: ", ")) }
            local CONTINUATION = { \(continuation.joined(separator: ", ")) }
            -- Each field: its name, its check, the reason for rejecting a wrong value, and the kinds that have it.
            local FIELDS = {
            \(fields.joined(separator: ",\n"))
            }
            local IS_FINAL = { \(final.joined(separator: ", ")) }
            -- Fields of a job's hash that say how its last run ended.
            local END_FIELDS = { 'crashes', 'attempt', 'error', 'message', 'retryable', 'finished', 'seconds', 'unchanged', 'sent', 'steps' }
            -- An element that is done, until its list is tidied (rechecks.lua). No producer writes it.
            local VOID = '{"void":true}'

            """
    }

    /// The table of each file of Lua/, which has the functions that other files call. While Redis loads a library, Lua
    /// has no functions of its own, such as setmetatable(), and a chunk may have 200 local variables. So each file is a
    /// block whose own variables end with it.
    static let tables = [
        "Call", "Isolation", "History", "Events", "Jobs", "Settings", "Replies", "ReplyBytes", "Responses",
        "UrlIndex", "Rejections", "Deletions", "Webhooks", "States", "Json", "Raw", "Urls", "Faults", "Gate",
        "Defaults", "Kinds", "Envelopes", "Pushes", "Order", "Batches", "BatchOperations", "Permits", "Starts", "Hosts",
        "Groups", "Rates", "Announcements", "Reports", "Steps", "Claims", "Budget", "Losses", "Colocated",
        "Disconnected", "Workers", "Control", "Runs", "Due", "Rechecks", "Schedules", "Pacer",
    ]

    private static let names = """
        local \(tables.joined(separator: ", ")) = \(tables.map { _ in "{}" }.joined(separator: ", "))
        -- Lua's own functions and those of Redis as local variables, which are faster to reach. They exist only once the
        -- library is loaded. So the first call binds them.
        local function library() return \(globals) end
        local \(globals)
        -- redis.call, redis.pcall, and functions of string and math.
        local call, try, find, match, gmatch, gsub, sub, byte, floor
        local function bind()
          \(globals) = library()
          call, try, floor = redis.call, redis.pcall, math.floor
          find, match, gmatch, gsub, sub, byte = string.find, string.match, string.gmatch, string.gsub, string.sub, string.byte
        end
        -- A whole number as its digits. Redis may write a number argument as 1.7e+12.
        local function integer_text(number) return string.format('%d', number) end
        -- Returns `text` if it is a whole number, else nil, because any client may write into a hash. Lua writes no more
        -- than 14 digits exactly.
        local function number(text) return type(text) == 'string' and #text <= 14 and find(text, '^%d+$') and text or nil end
        local function to_integer(text) return tonumber(number(text)) or 0 end
        -- Whether a value is a valid id of a job, or name of a batch or a reply list.
        local function is_id(text) return type(text) == 'string' and #text <= 128 and find(text, '^[A-Za-z0-9._:-]+$') ~= nil end

        """

    private static let globals = "type, tonumber, tostring, unpack, ipairs, pairs, pcall, select, string, table, math"

    // MARK: Reading a job

    /// A field of a job's hash, as the functions see it. Any client may have written anything into it.
    private enum Field {
        /// nil if it is absent.
        case text(String)
        /// A whole number as text; nil if it is absent or something else.
        case number(String, as: String)
        /// The same as a number, 0 instead of nil.
        case count(String)

        static func number(_ name: String) -> Field { .number(name, as: name) }

        var inHash: String {
            switch self {
            case .text(let name), .number(let name, _), .count(let name): name
            }
        }

        var name: String { if case .number(_, let name) = self { name } else { inHash } }

        var value: String {
            switch self {
            case .text(let name): "\(name) or nil"
            case .number(_, let name): "number(\(name))"
            case .count(let name): "tonumber(number(\(name))) or 0"
            }
        }
    }

    /// What decides what may happen to a job, and what its events need.
    private static let wholeJob: [Field] = [
        .text("state"), .text("want"), .number("want_at"), .number("settled_until"), .text("token"),
        .number("next_push"), .count("crashes"), .count("attempt"), .number("deadline_at", as: "deadline"),
        .count("seq"), .number("pushed"), .number("ahead"), .number("resumed"), .number("retried"),
    ]
    /// The same. Most jobs lack some of these texts.
    private static let rarelyInJob = [
        "want_next", "ticket", "worker", "meta", "reply_to", "waiting", "active_token", "kind", "host", "batch",
        "url_digests", "notify", "group",
    ]

    /// What decides about the end of a run.
    private static let end: [Field] = [
        .text("state"), .text("token"), .number("want_at"), .number("deadline_at", as: "deadline"), .count("seq"),
        .number("pushed"),
    ]
    /// The same, but most jobs have none of these texts.
    private static let rarelyAtEnd = [
        "want", "want_next", "next_push", "active_token", "waiting", "speed", "meta", "reply_to", "host", "batch",
        "notify", "group",
    ]

    /// What decides about a run that goes on. It is read each second for each run.
    private static let running: [Field] = [.text("state"), .text("token"), .count("seq")]
    private static let rarelyWhileRunning = ["want", "meta", "host"]

    private static let reads = """
        -- Reads a job. Raises an error for a key of another type.
        \(read("read", wholeJob, rarely: rarelyInJob))
        -- Reads what decides about the end of a run. Returns nil and the error for a key of another type.
        \(read("read_end", end, rarely: rarelyAtEnd, isTolerant: true))
        -- Reads what decides about a run that goes on. Returns nil and the error for a key of another type.
        \(read("read_running", running, rarely: rarelyWhileRunning, isTolerant: true))

        """

    /// A function that reads fields by their positions. A loop over their names would take a fifth longer. Only texts that
    /// most jobs lack (`rarely`) have a loop, because each member of a table costs even if it is nil.
    private static func read(
        _ name: String, _ fields: [Field], rarely: [String], isTolerant: Bool = false
    ) -> String {
        """
        do
        local RARELY = { \(rarely.map { "'\($0)'" }.joined(separator: ", ")) }
        function Jobs.\(name)(c, id)
          local values = \(isTolerant ? "try" : "call")('HMGET', c.JOB .. id, \
        \(fields.map { "'\($0.inHash)'" }.joined(separator: ", ")), unpack(RARELY))
          \(isTolerant ? "if values.err then return nil, values end" : "")
          local \(fields.map(\.name).joined(separator: ", ")) = unpack(values)
          local job = { \(fields.map { "\($0.name) = \($0.value)" }.joined(separator: ", ")) }
          for n, name in ipairs(RARELY) do
            if values[n + \(fields.count)] then job[name] = values[n + \(fields.count)] end
          end
          return job
        end
        end
        """
    }

    /// A Lua value that names or describes the check of a field: checker() in Lua/claim/gate.lua reads it.
    private static func check(_ kind: JobField.Kind) -> String {
        switch kind {
        case .url: "'url'"
        case .urls: "'urls'"
        case .id: "'id'"
        case .path: "'path'"
        case .file: "'file'"
        case .files: "'files'"
        case .checksum: "'checksum'"
        case .method: "'method'"
        case .headers: "'headers'"
        case .meta: "'meta'"
        case .mediaType: "'media_type'"
        case .ticket: "'ticket'"
        case .items: "'items'"
        case .json: "'json'"
        case .base64: "'base64'"
        case .statuses: "'statuses'"
        case .flag: "'flag'"
        case .batch: "'batch'"
        case .notify: "'notify'"
        case .steps: "'steps'"
        case .choice(let choices): "{ choice = { \(choices.map { "['\($0)'] = true" }.joined(separator: ", ")) } }"
        case .integer(let range): "{ integer = { \(range.lowerBound), \(range.upperBound) } }"
        case .number(let range): "{ number = { \(range.lowerBound), \(range.upperBound) } }"
        case .text(let limit): "{ text = \(limit) }"
        }
    }
}
