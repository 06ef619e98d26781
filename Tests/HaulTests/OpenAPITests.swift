import Foundation
import HaulBus
import HaulContract
import HaulTestSupport
import Testing

@testable import HaulWeb

/// The schemas of docs/reference/openapi.json that are made from declarations. `HAUL_WRITE_PAGES=1 swift test --filter
/// OpenAPITests` writes them anew.
@Suite struct OpenAPITests {
    private static let file = "Sources/Web/Page/openapi.json"

    @Test("the schemas of jobs, workers, queues, batches and errors are what the code declares")
    func schemas() throws {
        let text = try Pages.text(Self.file)
        let element = try #require(try JSON(Pages.text("docs/reference/schema/element.json"))["$defs"])
        var generated = [
            "Job": Self.object(
                JobRecord.members,
                "A job, in the one shape that `haul show --json`, `haul list --json` and the API have. A member that does "
                    + "not apply is absent, and lists have only some of the others. docs/reference/http-api.md compares "
                    + "this shape with the job's hash and with events."),
            "Worker": Self.object(Shapes.worker, "A worker of the queue, as it last said."),
            "Batch": Self.object(Shapes.batch, "A set of jobs that are counted together: docs/guides/batches.md."),
            "Change": Self.object(ChangeRecord.members, "Who changed what: docs/reference/keys.md."),
            "Schedule": Self.object(
                Shapes.schedule, "A job that is pushed at certain times: docs/guides/schedules.md."),
            "Queue": Self.object(Shapes.queue, "A queue at a glance."), "Error": Self.error,
            "FailureGroup": Self.object(FailureGroup.members, "Failed jobs with the same error at the same host."),
            "Bottleneck": Self.object(
                Bottleneck.members, "Something that keeps jobs from starting, or slows those that run."),
            "NewJob": Self.newJob,
            "SettingsChange": try Self.settingsChange(
                #require(JSON(text)["components"]?["schemas"]?["SettingsChange"]),
                #require(element["job"]?["properties"])),
        ]
        let job = try #require(element["job"])
        for kind in Job.Kind.allCases { generated[Self.name(kind)] = try Self.newJob(kind, job) }
        let current = Self.indented(try JSON(text).replacing(generated)) + "\n"
        if current != text, ProcessInfo.processInfo.environment["HAUL_WRITE_PAGES"] != nil {
            try Data(current.utf8).write(to: Pages.repository.appending(path: Self.file))
        } else {
            #expect(current == text, "\(Self.file) is not what the code says")
        }
    }

    @Test("the parameters of each path are those that the description lists") func parameters() throws {
        let page = try JSON(Pages.text(Self.file))
        for path in try #require(page["paths"]?.members) {
            let words = path.name.split(separator: "/").map { String($0.hasPrefix("{") ? "x" : $0) }
            guard let read = path.value["get"] else { continue }
            let described = (read["parameters"]?.array ?? []).filter { $0["in"]?.string == "query" }
            #expect(described.compactMap { $0["name"]?.string } == API.parameters(of: words), "\(path.name)")
            let headers = (read["parameters"]?.array ?? []).filter { $0["in"]?.string == "header" }
            #expect(headers.compactMap { $0["name"]?.string } == Self.headers[path.name] ?? [], "\(path.name)")
        }
    }

    @Test("the state of named jobs is one or a list of them, as the server takes it") func statesOfNamedJobs() throws {
        let schemas = try #require(JSON(Pages.text(Self.file))["components"]?["schemas"])
        let state = schemas["ControlJobs"]?["properties"]?["state"]?["anyOf"]?.array ?? []
        #expect(state.compactMap { $0["type"]?.string } == ["string", "array"])
        let names = JobState.allCases.map(\.rawValue).sorted()
        for values in [state.first?["enum"], state.last?["items"]?["enum"]] {
            #expect(values?.array?.compactMap(\.string).sorted() == names)
        }
    }

    /// The header fields of requests that change the response.
    private static let headers = [
        "/queues/{queue}/events": ["Last-Event-ID"],
        "/queues/{queue}/jobs/{id}/file": ["Range", "If-Range", "If-None-Match"],
    ]

    private static func object(_ members: [JSONMember], _ description: String) -> String {
        var properties = JSONObject()
        for member in members { properties.set(member.name, json: schema(member)) }
        var json = JSONObject()
        json.set("type", "object")
        json.set("description", description)
        json.set("properties", json: properties.text)
        json.set("required", json: list(members.filter(\.isAlways).map(\.name)))
        return json.text
    }

    private static func list(_ texts: [String]) -> String {
        "[" + texts.map(JSON.quoted).joined(separator: ",") + "]"
    }

    private static func schema(_ member: JSONMember) -> String {
        var json = JSONObject()
        func number(_ names: [String]) -> String {
            names.reduce(into: JSONObject()) { $0.set($1, json: #"{"type":"integer"}"#) }.text
        }
        switch member.kind {
        case .text: json.set("type", "string")
        case .id: json.set("$ref", "#/components/schemas/ID")
        case .integer: json.set("type", "integer")
        case .integerOr(let word):
            json.set("anyOf", json: #"[{"type":"integer"},{"type":"string","enum":[\#(JSON.quoted(word))]}]"#)
        case .decimal: json.set("type", "number")
        case .flag: json.set("type", "boolean")
        case .any: break
        case .choice(let choices):
            json.set("type", "string")
            json.set("enum", json: list(choices))
        case .headers:
            json.set("type", "object")
            json.set("additionalProperties", json: #"{"type":"string"}"#)
        case .names:
            json.set("type", "array")
            json.set("items", json: #"{"type":"string"}"#)
        case .intervals:
            json.set("type", "array")
            json.set("items", json: #"{"type":"array","minItems":2,"maxItems":2,"items":{"type":"integer"}}"#)
        case .files:
            json.set("type", "array")
            json.set(
                "items",
                json:
                    #"{"type":"object","properties":{"file":{"type":"string"},"status":{"type":"integer"},"error":{"type":"string"}},"required":["file"]}"#
            )
        case .attempts:
            json.set("type", "array")
            json.set(
                "items",
                json:
                    #"{"type":"object","properties":{"started":{"type":"integer"},"ended":{"type":"integer"},"worker":{"type":"string"},"error":{"type":"string"},"message":{"type":"string"},"received":{"type":"integer"}},"required":["ended","worker"]}"#
            )
        case .counts(let names):
            json.set("type", "object")
            json.set("properties", json: number(names))
            json.set("required", json: list(names))
        case .ranking:
            json.set("type", "array")
            json.set(
                "items",
                json:
                    #"{"type":"array","minItems":2,"maxItems":2,"items":{"anyOf":[{"type":"string"},{"type":"integer"}]}}"#
            )
        case .failures:
            let pairs =
                #"{"type":"array","items":{"type":"array","minItems":2,"maxItems":2,"items":{"anyOf":[{"type":"string"},{"type":"integer"}]}}}"#
            let groups = ##"{"type":"array","items":{"$ref":"#/components/schemas/FailureGroup"}}"##
            json.set("type", "object")
            json.set(
                "properties",
                json: #"{"of":{"type":"integer"},"by_error":\#(pairs),"by_host":\#(pairs),"groups":\#(groups)}"#)
            json.set("required", json: list(["of", "by_error", "by_host", "groups"]))
        case .integers:
            json.set("type", "array")
            json.set("items", json: #"{"type":"integer"}"#)
        case .object(let name): json.set("$ref", "#/components/schemas/\(name)")
        case .objects(let name):
            json.set("type", "array")
            json.set("items", json: ##"{"$ref":"#/components/schemas/\##(name)"}"##)
        }
        json.set("description", member.meaning)
        return json.text
    }

    private static var error: String {
        let codes = list(APIError.Code.allCases.map(\.rawValue))
        return
            #"{"type":"object","properties":{"error":{"type":"string","enum":\#(codes),"description":"docs/reference/http-api.md says what to do about each code."},"message":{"type":"string","description":"A sentence for people."},"watch":{"type":"string","description":"In a stream: the watched path that cannot be read."}},"required":["error","message"]}"#
    }

    // MARK: Jobs that are pushed

    private static func name(_ kind: Job.Kind) -> String { "New" + kind.rawValue.capitalized }

    /// `kind` says which of the schemas a job has, so that generated clients have a type for each kind.
    private static var newJob: String {
        let references = Job.Kind.allCases.map { (kind: $0, path: "#/components/schemas/\(name($0))") }
        let mapping = references.reduce(into: JSONObject()) { $0.set($1.kind.rawValue, $1.path) }
        var json = JSONObject()
        json.set("description", "A job of one of the kinds. Without `kind` it is a download.")
        json.set("oneOf", json: "[\(references.map { #"{"$ref":\#(JSON.quoted($0.path))}"# }.joined(separator: ","))]")
        json.set("discriminator", json: #"{"propertyName":"kind","mapping":\#(mapping.text)}"#)
        return json.text
    }

    /// The job of docs/reference/schema/element.json for one kind. The API refuses members that a worker would ignore.
    private static func newJob(_ kind: Job.Kind, _ job: JSON) throws -> String {
        let branch: JSON? =
            switch kind {
            case .request: job["then"]
            case .upload: job["else"]?["then"]
            case .download: job["else"]?["else"]
            }
        let rules = try #require(branch?.members).filter { $0.name != "description" && $0.name != "propertyNames" }
        let fields = JobField.all.filter { $0.kinds.contains(kind) }.map(\.name)
        var properties = JSONObject()
        for member in job["properties"]?.members ?? [] where fields.contains(member.name) {
            properties.set(
                member.name,
                json: member.name == "kind" ? #"{"type":"string","enum":["\#(kind.rawValue)"]}"# : member.raw)
        }
        func object(_ required: [String]) -> String {
            var json = JSONObject()
            if !required.isEmpty { json.set("required", json: list(required)) }
            for rule in rules { json.set(rule.name, json: rule.raw) }
            return json.text
        }
        var json = JSONObject()
        json.set("type", "object")
        json.set(
            "description",
            "\(branch?["description"]?.string ?? "") docs/reference/fields.md says which fields it has. Its element has at "
                + "most 16 KiB, and 6 KiB without its texts. A member with another name is refused.")
        json.set("properties", json: properties.text)
        // Generators make types of what stands here, and ignore conditions.
        if kind == .download {
            json.set("if", json: #"{"required":["urls"]}"#)
            json.set("then", json: object([]))
            json.set("else", json: object(["url"]))
        } else {
            json.set("required", json: list(["kind", "url"]))
            json.set("if", json: #"{"required":["kind"]}"#)
            json.set("then", json: object([]))
        }
        json.set("additionalProperties", false)
        return inComponents(json.text)
    }

    private static func inComponents(_ schema: String) -> String {
        schema.replacing("#/$defs/id", with: "#/components/schemas/ID")
            .replacing("#/$defs/url", with: "#/components/schemas/URL")
            .replacing("#/$defs/source", with: "#/components/schemas/SourceURL")
    }

    /// The defaults of jobs have the schemas of the fields. Generators of clients follow no reference into a schema.
    private static func settingsChange(_ change: JSON, _ fields: JSON) throws -> String {
        var properties = JSONObject()
        for name in QueueDefault.all.map(\.name) where name != "base" {
            let field = inComponents(try #require(fields[name]).text)
            properties.set(name, json: name == "meta" ? field : #"{"anyOf":[\#(field),{"type":"null"}]}"#)
        }
        func changed(_ json: JSON?, _ name: String, _ change: (JSON) throws -> String) throws -> String {
            try (json?.members ?? []).reduce(into: JSONObject()) {
                $0.set($1.name, json: $1.name == name ? try change($1.value) : $1.raw)
            }.text
        }
        return try changed(change, "properties") { settings in
            try changed(settings, "defaults") { defaults in
                try changed(defaults, "properties") { _ in properties.text }
            }
        }
    }

    /// A JSON text with an indentation of one blank, as the file has it.
    private static func indented(_ json: JSON, _ indent: String = "\n") -> String {
        let next = indent + " "
        switch json {
        case .object(let members) where !members.isEmpty:
            let lines = members.map { "\(JSON.quoted($0.name)): \(indented($0.value, next))" }
            return "{" + next + lines.joined(separator: "," + next) + indent + "}"
        case .array(let elements) where !elements.isEmpty:
            return "[" + next + elements.map { indented($0, next) }.joined(separator: "," + next) + indent + "]"
        default: return json.text
        }
    }
}

extension JSON {
    /// The description with these schemas.
    fileprivate func replacing(_ schemas: [String: String]) throws -> JSON {
        func object(_ json: JSON?, _ change: (String, JSON.Member) throws -> String) throws -> String {
            var result = JSONObject()
            for member in json?.members ?? [] { result.set(member.name, json: try change(member.name, member)) }
            return result.text
        }
        return try JSON(
            object(self) { name, member in
                guard name == "components" else { return member.raw }
                return try object(member.value) { name, member in
                    guard name == "schemas" else { return member.raw }
                    var result = JSONObject()
                    for member in member.value.members ?? [] {
                        result.set(member.name, json: schemas[member.name] ?? member.raw)
                    }
                    for (name, schema) in schemas.sorted(by: { $0.key < $1.key }) where member.value[name] == nil {
                        result.set(name, json: schema)
                    }
                    return result.text
                }
            })
    }
}
