extension Job {
    /// A job that is pushed when another one ends: docs/guides/next-steps.md.
    ///
    ///     var job = Job("https://example.org/film.mp4", id: "film-17")
    ///     var call = Job.request("POST", "https://example.com/ready", id: "ready-${id}")
    ///     call.request.json = #"{"file":"${file}"}"#
    ///     job.then = [Job.Step(call)]
    ///
    /// In its texts, `${name}` is replaced by a result of the job that ended.
    public struct Step: Sendable, Equatable {
        /// The step as a JSON object.
        public var text: String

        /// The job as a step. Any of its texts may have `${name}`.
        public init(_ job: Job) { text = job.element }

        /// A step that is written as JSON, for fields whose type cannot contain `${name}`, such as a checksum.
        public init(json text: String) { self.text = text }
    }

    /// The jobs that are pushed when this one ends.
    package enum StepList: String, CaseIterable, Sendable {
        /// After it has completed.
        case then
        /// After it has failed.
        case `else`

        package func steps(of job: Job) -> [Step] { self == .then ? job.then : job.else }

        /// What steps of a job of this kind may refer to, each with a value for checks.
        fileprivate func examples(_ kind: Kind) -> [String: String] {
            var values = ["id": "id"]
            switch (self, kind) {
            case (.else, _): values["error"] = "connect"
            case (.then, .download):
                let digest = String(repeating: "0", count: 64)
                values.merge(["file": "file", "bytes": "1", "checksum": "sha256:" + digest]) { $1 }
            case (.then, _): values["bytes"] = "1"
            }
            return values
        }
    }
}

extension Job.Step {
    package static let maxCount = 8
    package static let rule = "must be a job, or a list of 1 to \(maxCount) jobs"

    /// Reads the value of a job's field `then` or `else`. nil if it breaks `rule`. Each step is still to be checked.
    static func list(_ value: JSON) -> [Job.Step]? {
        let steps = value.array ?? [value]
        guard 1...maxCount ~= steps.count, steps.allSatisfy({ $0.members?.isEmpty == false }) else { return nil }
        return steps.map { Job.Step(json: $0.text) }
    }

    /// The value of a job's field `then` or `else`, as JSON. nil without steps.
    static func json(_ steps: [Job.Step]) -> String? {
        switch steps.count {
        case 0: nil
        case 1: steps[0].text
        default: "[" + steps.map(\.text).joined(separator: ",") + "]"
        }
    }

    /// The step as an element, with its values filled in, and the id of its job. A step of its own, in `then` or `else`,
    /// stays as it is, because it refers to the step's results.
    ///
    /// - Parameter id: The id of a step that names none.
    package func element(_ values: [String: String], id: String) -> (id: String, text: String) {
        let members = (try? JSON(text))?.members ?? []
        var own: String?
        var parts: [String] = []
        for member in members {
            let isNested = Job.StepList(rawValue: member.name) != nil
            let raw = isNested ? member.raw : Self.filled(member.raw, values)
            if member.name == "id" { own = (try? JSON(raw))?.string }
            parts.append("\(JSON.quoted(member.name)):\(raw)")
        }
        if own == nil { parts.insert("\"id\":\(JSON.quoted(id))", at: 0) }
        let element = "{" + parts.joined(separator: ",") + "}"
        guard element.utf8.count > JobField.maxElementBytes else { return (own ?? id, element) }
        // The claim refuses an element of this size and lists it, so the rest is not needed.
        return (own ?? id, String(decoding: element.utf8.prefix(JobField.maxElementBytes + 1), as: UTF8.self))
    }

    /// Calls `replace` for each `${name}` in a JSON text, which can only be inside of a string. The result has no more
    /// than twice the bytes of an element, whatever the values are.
    private static func replacing(_ raw: String, _ replace: (String) -> String?) -> String {
        let bytes = Array(raw.utf8)
        guard bytes.contains(UInt8(ascii: "$")) else { return raw }
        var result: [UInt8] = []
        var position = 0
        while position < bytes.count, result.count <= 2 * JobField.maxElementBytes {
            let rest = bytes[position...]
            // A name is only read behind the sign, so that the whole takes linear time.
            let isName = rest.starts(with: "${".utf8)
            let name = rest.dropFirst(2).prefix { isName && (97...122 ~= $0 || $0 == UInt8(ascii: "_")) }
            if !name.isEmpty, name.endIndex < bytes.count, bytes[name.endIndex] == UInt8(ascii: "}"),
                let value = replace(String(decoding: name, as: UTF8.self))
            {
                result += value.utf8
                position = name.endIndex + 1
            } else {
                result.append(bytes[position])
                position += 1
            }
        }
        return String(decoding: result, as: UTF8.self)
    }

    private static func filled(_ raw: String, _ values: [String: String]) -> String {
        replacing(raw) { name in values[name].map { String(JSON.quoted($0).dropFirst().dropLast()) } }
    }

    /// The names in a JSON text that are not among `values`.
    private static func unknownNames(_ raw: String, _ values: [String: String]) -> [String] {
        var unknown: [String] = []
        _ = replacing(raw) { name in
            if values[name] == nil { unknown.append(name) }
            return ""
        }
        return unknown
    }

    /// Checks the step as it would be with examples of the results. Returns the names of its unknown fields.
    fileprivate func check(_ values: [String: String], location: String) throws(Job.Invalid) -> [String] {
        let json: JSON
        do { json = try JSON(text) } catch { throw Job.Invalid(field: nil, reason: "must be JSON: \(error)") }
        for member in json.members ?? [] where Job.StepList(rawValue: member.name) == nil {
            if let name = Self.unknownNames(member.raw, values).first {
                let known = values.keys.sorted().joined(separator: ", ")
                throw Job.Invalid(
                    field: member.name, reason: "has ${\(name)}, and a step may only refer to \(known) here")
            }
        }
        if json["at"] != nil { throw Job.Invalid(field: "at", reason: "is not a field of a step") }
        let job = try Job(element: element(values, id: "id").text.utf8)
        return try job.unknownFields.map { "\(location).\($0)" } + job.checkSteps(within: location + ".")
    }
}

extension Job {
    /// Checks the jobs of `then` and `else`, of which a claim only checks that they are objects.
    ///
    /// - Returns: The unknown fields of all steps.
    /// - Throws: `Invalid`, which names the list and the step's field.
    @discardableResult
    package func checkSteps(within location: String = "") throws(Invalid) -> [String] {
        var unknown: [String] = []
        for list in StepList.allCases {
            let steps = list.steps(of: self)
            for (index, step) in steps.enumerated() {
                do throws(Invalid) {
                    unknown += try step.check(list.examples(kind), location: location + list.rawValue)
                } catch {
                    let number = steps.count > 1 ? "number \(index + 1): " : ""
                    throw Invalid(field: list.rawValue, reason: number + error.description)
                }
            }
        }
        return unknown
    }
}
