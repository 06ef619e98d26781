import HaulContract

/// The contract's fields, limits and keys as Lua tables, for the functions.
enum Gate {
    static var table: String {
        let fields = JobField.all.map { field in
            let kinds = Job.Kind.allCases.filter(field.kinds.contains).map { "\($0.rawValue) = true" }
            return
                "  { '\(field.name)', \(check(field.kind)), [[\(field.rule)]], { \(kinds.joined(separator: ", ")) } }"
        }
        let kinds = Job.Kind.allCases.map { "\($0.rawValue) = [[\(JobField.strangeRule($0))]]" }
        let inRequests = JobField.forbiddenInRequests.sorted().map { "['\($0)'] = true" }
        let headers = JobField.forbiddenHeaders.sorted().map { "['\($0)'] = true" }
        let keys =
            KeyName.allCases.map { "\($0) = '\($0.rawValue)'" }
            + ChannelName.allCases.map { "\($0) = '\($0.rawValue)'" }
        let continuation = JobField.continuation.sorted().map { "\($0) = true" }
        let allowedFields = JobField.all.filter(\.mayHaveDefault).map { "\($0.name) = true" }
        let digits = Job.Checksum.Algorithm.allCases.map { "\($0.rawValue) = \($0.hexadecimalDigits)" }
        let faults = FieldFault.allCases.map { "\($0.rawValue) = [[\($0.text)]]" }
        return """
            local LARGEST = { element = \(JobField.largestElement), element_rule = [[\(JobField.elementRule)]],
              skeleton = \(JobField.largestSkeleton), skeleton_rule = [[\(JobField.skeletonRule)]],
              depth = \(JSON.deepest), default = \(JobField.largestDefault), headers = \(JobField.maxHeaders),
              batch = \(Job.Batch.largest), published = \(Settlement.largestPublished), replies = \(Settlement.largestReplies) }
            local KEY = { \(keys.joined(separator: ", ")) }
            local TIMESTAMPS = { min = \(JobField.timestamps.lowerBound), max = \(JobField.timestamps.upperBound),
              rule = [[\(JobField.timestampRule)]] }
            local KEPT = { min = \(QueueSetting.kept.lowerBound), max = \(QueueSetting.kept.upperBound),
              responses = \(QueueSetting.defaultResponsesBytes), replies = \(QueueSetting.defaultRepliesBytes) }
            local OWN_HEADERS = { \(headers.joined(separator: ", ")) }
            local OWN_PREFIX = '\(JobField.forbiddenPrefix)'
            -- About kinds of jobs (kinds.lua). `rules`: the reason for rejecting a field that a kind does not have.
            -- `faults`: the reasons of which faults.lua chooses one. `digits`: how many hexadecimal digits a digest
            -- has.
            local kinds = { faults = { \(faults.joined(separator: ", ")) },
              digits = { \(digits.joined(separator: ", ")) },
              rules = { \(kinds.joined(separator: ", ")) },
              all = '\(Job.Kind.allCases.map(\.rawValue).joined(separator: " "))', body_rule = [[\(JobField.bodyRule)]],
              not_in_requests = { \(inRequests.joined(separator: ", ")) }, max_files = \(Job.Upload.maxFiles),
              upload = { file = [[\(Job.Upload.fileRule)]], each = [[\(Job.Upload.eachRule)]],
                form = [[\(Job.Upload.formRule)]], protocol = [[\(Job.Upload.protocolRule)]] } }
            -- About defaults of jobs (defaults.lua). `allowed_fields`: the fields that may have a default.
            local defaults = { allowed_fields = { \(allowedFields.joined(separator: ", ")) } }
            local CONTINUATION = { \(continuation.joined(separator: ", ")) }
            -- Each field: its name, its check, the reason for rejecting a wrong value, and the kinds that have it.
            local FIELDS = {
            \(fields.joined(separator: ",\n"))
            }

            """
    }

    /// A Lua value that names or describes the check of a field: checker() in Lua/gate.lua reads it.
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
        case .choice(let choices): "{ choice = { \(choices.map { "['\($0)'] = true" }.joined(separator: ", ")) } }"
        case .integer(let range): "{ integer = { \(range.lowerBound), \(range.upperBound) } }"
        case .number(let range): "{ number = { \(range.lowerBound), \(range.upperBound) } }"
        case .text(let limit): "{ text = \(limit) }"
        }
    }
}
