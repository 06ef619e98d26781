import Foundation
import HaulContract
import HaulTestSupport
import Testing

@testable import HaulBus

/// docs/reference/schema/element.json agrees with both parsers of elements.
@Suite struct SchemaTests {
    private static func isRefused(_ verdict: String) -> Bool { verdict.hasPrefix("refused") || verdict == "no JSON" }

    /// The fields of rules that the schema cannot express, as it says itself: the whole element's size and grammar,
    /// hosts, and bytes.
    private static let beyond: Set<String?> = [nil, "url", "urls", "meta"]

    @Test("the schema accepts all valid elements, and no invalid ones but those that it cannot express")
    func table() async throws {
        let validator = SchemaValidator("element.json")
        let valid = ValidElements.all.map {
            // By bytes, because Swift takes a carriage return and a line feed for one character.
            String(decoding: $0.utf8.map { $0 == 10 ? 32 : $0 }, as: UTF8.self)
        }
        for (element, verdict) in zip(valid, try await validator.verdicts(valid)) {
            #expect(verdict == "accepted", "\(element.prefix(100)): \(verdict)")
        }
        let invalid = InvalidElements.all.filter {
            !$0.element.contains(10) && String(validating: $0.element, as: UTF8.self) != nil
        }
        let texts = invalid.map { String(decoding: $0.element, as: UTF8.self) }
        for (element, verdict) in zip(invalid, try await validator.verdicts(texts)) where !Self.isRefused(verdict) {
            #expect(Self.beyond.contains(element.field), "\(element): \(verdict)")
        }
    }

    /// The environment variables HAUL_SCHEMA_ELEMENTS and HAUL_SCHEMA_SEED set the number of elements and the seed.
    @Test("the schema, the claim and Contract agree on generated elements") func generated() async throws {
        let environment = ProcessInfo.processInfo.environment
        let count = environment["HAUL_SCHEMA_ELEMENTS"].flatMap { Int($0) } ?? 3000
        let seed = environment["HAUL_SCHEMA_SEED"].flatMap { UInt64($0) } ?? UInt64.random(in: 0..<1 << 32)
        print("SchemaTests: seed \(seed), \(count) elements")
        var generator = SchemaElements(seed: seed)
        let elements = (0..<count).map { _ in generator.next() }
        let readers = GrammarTests.Readers(try await QueueFixture())
        var claims: [String] = []
        for batch in elements.chunks(ofCount: 500) { claims += try await readers.claim(batch.map { Array($0.utf8) }) }
        let verdicts = try await SchemaValidator("element.json").verdicts(elements)
        try #require(verdicts.count == elements.count)
        var accepted = 0
        for (index, element) in elements.enumerated() {
            let contract = readers.contract(Array(element.utf8))
            let readersRefuse = contract.hasPrefix("refused")
            if !readersRefuse { accepted += 1 }
            guard claims[index] == contract, readersRefuse == Self.isRefused(verdicts[index]) else {
                Issue.record(
                    "seed \(seed): the schema says \(verdicts[index]), the claim \(claims[index]), Contract \(contract), of \(element)"
                )
                return
            }
        }
        // The sample must have many valid elements and many invalid ones.
        #expect(accepted > count / 10 && accepted < count * 9 / 10, "\(accepted) of \(count), seed \(seed)")
    }

    @Test("the refusal of a field that a kind of job or a continuation does not have names the field")
    func refusals() async throws {
        let cases = [
            (#"{"url":"http://h/","kind":"request","path":"x"}"#, "'path'"),
            (#"{"url":"http://h/","kind":"upload","file":"x","checksum":1}"#, "'checksum'"),
            (#"{"url":"http://h/","each":true}"#, "'each'"), (#"{"id":"x","retries":1}"#, "'retries'"),
            (#"{"url":"http://h/","batch":{"name":"b","siez":1}}"#, "'siez'"),
        ]
        let verdicts = try await SchemaValidator("element.json").verdicts(cases.map(\.0))
        for ((element, name), verdict) in zip(cases, verdicts) {
            #expect(verdict.hasPrefix("refused") && verdict.contains(name), "\(element): \(verdict)")
        }
    }

    @Test("the schema names every field of a job, and its examples are valid")
    func examples() throws {
        let text = try Data(
            contentsOf: SchemaValidator.repository.appending(path: "docs/reference/schema/element.json"))
        let schema = try JSON(text)
        let fields = try #require(schema["$defs"]?["job"]?["properties"]?.members)
        // In a job, `t` means nothing.
        #expect(Set(fields.map(\.name)) == Set(JobField.all.map(\.name)).subtracting(["t"]))
        var examples: [String: String] = [:]
        for field in fields {
            guard let example = field.value["examples"]?.array?.first else {
                Issue.record("\(field.name) has no example")
                continue
            }
            examples[field.name] = example.text
        }
        for (name, example) in examples { _ = try Self.job(name, example) }
    }

    private static func job(_ field: String, _ example: String) throws -> Job {
        var members = JSONObject()
        if field != "url", field != "urls" { members.set("url", "http://h/") }
        if ["body", "json", "form", "body_base64"].contains(field) { members.set("id", "x") }
        if field != "kind", JobField.byName[field]?.kinds.contains(.download) == false {
            let kind = JobField.byName[field]?.kinds.contains(.request) == true ? "request" : "upload"
            members.set("kind", kind)
            if kind == "upload", field != "file", field != "files" {
                members.set(field == "each" ? "files" : "file", json: field == "each" ? #"[{"file":"a"}]"# : #""a""#)
            }
        }
        members.set(field, json: example)
        return try Job(element: members.text.utf8)
    }
}

/// Elements of fields with valid and invalid values, as far as a schema can distinguish them.
private struct SchemaElements {
    private var random: SeededGenerator

    init(seed: UInt64) { random = SeededGenerator(state: seed) }

    private static let numbers = [
        "0", "1", "-0", "-1", "1.5", "1e2", "16", "17", "1000", "1001", "0.1", "0.09", "86400", "86400.5",
        "10000000000",
        "10000000001", "9007199254740991", "9007199254740992", "1763712000000", "999999999999", "1000000000000",
        "99999999999999", "100000000000000", "\"1\"", "true", "null", "[]", "{}",
    ]
    private static let ids =
        [
            "a", "A.b_c:d-1", "", "a b", "é", "a\\n", "\\u0000", String(repeating: "i", count: 128),
            String(repeating: "i", count: 129),
        ].map { "\"\($0)\"" } + ["7", "null"]
    private static let urls =
        [
            "http://h/", "HTTPS://h.example:8443/a?b=c#d", "http://u:p@h", "http://[::1]/", "http://h?x", "ftp://h/",
            "http:/h", "http:///x",
            "http://", "http://?x", "//h/", "http://h/a b", "http://h/\\n", "http://h/\\u007f", "http://u@",
            "http://u@/x", "s3://films/k", "s3://films", "s3://films/k?versionId=1", "s3://films/k?x", "S3://films/k",
        ].map { "\"\($0)\"" } + ["null", "1", "[]"]
    private static let values: [String: [String]] = [
        "path": [
            "a", "a/", "a//b", "a/b.haul", ".h", "...", "a/...", "é/ü", "", "/a", "..", "../a", "a/..", "a/./b", "./a",
            ".haul", "a/.haul-x",
            "a\\nb", "a\\u007f", String(repeating: "p", count: 255), String(repeating: "p", count: 256),
        ].map { "\"\($0)\"" } + ["5", "null"],
        "if_exists": ["\"reuse\"", "\"overwrite\"", "\"rename\"", "\"fail\"", "\"Reuse\"", "\"skip\"", "1"],
        "checksum": [32, 40, 64, 128, 31].flatMap { digits in
            ["md5", "sha1", "sha256", "sha512", "crc"].map {
                "\"\($0):\(String(repeating: "aB3", count: 50).prefix(digits))\""
            }
        } + ["\"md5:\(String(repeating: "g", count: 32))\"", "1"],
        "content_type": [
            "a/b", "text/html; charset=utf-8", "a/b ;", "a/b\\t;x", "a", "/", "a/b/c", " a/b", "a/b c", "a/b;\\n",
            "a/é", "",
        ].map { "\"\($0)\"" } + ["1"],
        "method": [
            "\"GET\"", "\"POST\"", "\"PATCH\"", "\"HEAD\"", "\"HEADS\"", "\"get\"", "\"\"",
            "\"\(String(repeating: "M", count: 21))\"", "1",
        ],
        "headers": [
            "{}", "[]", #"{"A":"b"}"#, #"{"A":"b","c-d":""}"#, #"{"Iffy":"x"}"#, #"{"If-X":"b"}"#, #"{"RANGE":"b"}"#,
            #"{"Ranges":"b"}"#,
            #"{"hOst":"b"}"#, #"{"A":1}"#, #"{"A":"b\n"}"#, #"{"A":"\u0000"}"#, #"{"":"b"}"#, #"{"a b":"c"}"#,
            #"{"a:":"c"}"#, #"{"é":"c"}"#,
            #"{"A\n":"b"}"#, "[1]", "\"A: b\"", "null",
        ],
        "kind": ["\"request\"", "\"request\"", "\"upload\"", "\"upload\"", "\"download\"", "\"x\"", "null"],
        "file": ["\"a\"", "\"a/b\"", "\"a/\"", "\"/a\"", "\"..\"", "\".haul\"", "1"],
        "files": [
            #"[{"file":"a"}]"#, #"[{"file":"a","name":"n","type":"a/b","filename":"f"},{"file":"b"}]"#, "[]", "[{}]",
            #"[{"file":"a/"}]"#, #"[{"file":"a","name":""}]"#, #"[{"file":"a","x":1}]"#, #"[{"file":"a","type":"x"}]"#,
            #"["a"]"#, #"{"file":"a"}"#,
        ],
        "each": ["true", "false", "1"],
        "protocol": ["\"tus\"", "\"ftp\"", "1"],
        "content_digest": ["\"sha-256\"", "\"sha-512\"", "\"md5\"", "1"],
        "json": ["1", "null", #"{"a":[1]}"#],
        "form": ["{}", "[]", #"{"a":"b"}"#, #"{"":1,"b":true}"#, #"{"a":null}"#, "[1]", "\"a\""],
        "query": [#"{"a":"b"}"#, #"{"a":[]}"#, "1"],
        "body_base64": [
            "\"\"", "\"QUJD\"", "\"QQ==\"", "\"QR==\"", "\"QUI=\"", "\"QUI\"", "\"Q_==\"", "\"QUJD\\n\"", "1",
        ],
        "expect": ["[200]", "[\"200-299\",404]", "[]", "[99]", "[600]", "[\"x\"]", "[\"200-299\\n\"]", "200", "{}"],
        "batch": [
            "\"b\"", "\"\"", "\"a b\"", #"{"name":"b"}"#, #"{"name":"b","size":1,"reply_to":"r"}"#,
            #"{"name":"b","size":0}"#,
            #"{"name":"b","size":100000}"#, #"{"name":"b","size":100001}"#, #"{"name":"b","size":1.5}"#,
            #"{"name":"b","reply_to":""}"#, #"{"name":"b","x":1}"#, #"{"size":1}"#, "{}", "[]", "1", "null",
        ],
        "idempotent": ["true", "false", "1", "null"],
        "body": ["\"\"", "\"x\"", "1", "null"],
        "meta": ["null", "1", "[ 1 ]", #"{"a":[{}]}"#, "\"m\""],
        "v": ["1", "1.0", "2", "0", "\"1\"", "null", "true"],
        "t": ["\"t\"", "1", "null", "\"\(String(repeating: "t", count: 65))\""],
        "other": ["1", "null", "{}"],
    ]
    private static let names = JobField.all.map(\.name) + ["other"]

    mutating func next() -> String {
        // Mostly a job, at times a continuation, or neither.
        var chosen: Set<String> = []
        if random.chance(80) { chosen.insert("url") }
        if random.chance(12) { chosen.insert("urls") }
        if random.chance(40) { chosen.insert("id") }
        if random.chance(25) { chosen.insert("kind") }
        if chosen.contains("kind"), random.chance(50) { chosen.insert(random.chance(50) ? "file" : "files") }
        if random.chance(85) || chosen.contains("url") {
            for _ in 0..<Int.random(in: 0...3, using: &random) {
                chosen.insert(Self.names.randomElement(using: &random)!)
            }
        }
        let members = chosen.sorted().map { "\"\($0)\":\(value(of: $0))" }
        return "{\(members.shuffled(using: &random).joined(separator: ","))}"
    }

    private mutating func value(of name: String) -> String {
        let isPlain = random.chance(70)
        switch name {
        case "url": return isPlain ? "\"http://h/\"" : Self.urls.randomElement(using: &random)!
        case "urls":
            let count = isPlain ? 2 : [0, 1, 16, 17].randomElement(using: &random)!
            let urls = (0..<count).map { _ in isPlain ? "\"http://h/\"" : Self.urls.randomElement(using: &random)! }
            return "[\(urls.joined(separator: ","))]"
        case "id", "reply_to": return isPlain ? "\"x\"" : Self.ids.randomElement(using: &random)!
        default: return (Self.values[name] ?? Self.numbers).randomElement(using: &random)!
        }
    }
}
