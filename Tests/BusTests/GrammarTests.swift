import Foundation
import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

@testable import HaulBus

/// The two parsers of elements, Contract's and the claim's, agree.
@Suite struct GrammarTests {
    /// What each parser makes of an element: "refused" and the reason, or the fields that it has read.
    struct Readers {
        /// Kept because its Redis server ends with it.
        private let fixture: QueueFixture
        private let reader: Function

        init(_ fixture: QueueFixture) {
            self.fixture = fixture
            reader = Library(name: "reader", body: Functions.body() + Self.lua).function("reader")
        }

        func claim(_ elements: [[UInt8]]) async throws -> [String] {
            let arguments: [any RedisArgument] = ["nonce"] + elements
            let reply = try await fixture.queue.redis.run(
                reader, keys: fixture.queue.keys.functionKeys(for: "-"), arguments: arguments, timeout: .seconds(60))
            return (reply.array ?? []).map { String(decoding: $0.bytes ?? [], as: UTF8.self) }
        }

        func contract(_ element: [UInt8]) -> String {
            do throws(Job.Invalid) {
                _ = try Job(element: element)
            } catch {
                guard error.field == "url", error.reason == "is missing", let json = try? JSON(element),
                    json["id"] != nil,
                    json.members!.allSatisfy({ JobField.continuation.contains($0.name) })
                else { return Self.refusal(error) }
            }
            guard let json = try? JSON(element) else { return "refused element" }
            // In a job, `t` means nothing.
            let fields = JobField.all.filter { $0.name != "t" || (json["url"] ?? json["urls"]) == nil }
            return fields.compactMap { field in
                json.members!.first { $0.name.utf8.elementsEqual(field.name.utf8) }.map {
                    field.name + "=" + Self.text($0, of: field.name)
                }
            }.joined(separator: "\n")
        }

        /// The verdict, with the reason if a field is wrong. The parsers have different messages for invalid JSON and for a
        /// missing URL.
        private static func refusal(_ error: Job.Invalid) -> String {
            error.field == nil ? "refused element" : "refused \(error)"
        }

        private static func text(_ member: JSON.Member, of name: String) -> String {
            if ["meta", "json", "notify", "then", "else"].contains(name) { return member.raw }
            return text(member.value)
        }

        private static func text(_ value: JSON) -> String {
            switch value {
            case .string(let text): return text
            case .number: return String(format: "%.17g", value.double!)
            case .bool(let value): return "\(value)"
            case .array(let elements): return elements.map(text).joined(separator: " ")
            case .object(let members):
                let lines = members.map { $0.name + ": " + text($0.value) }
                return lines.sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }.joined(separator: " ")
            default: return ""
            }
        }

        private static let lua = """

            local report = {}
            function report.text(v)
              if type(v) == 'number' then return string.format('%.17g', v) end
              return type(v) == 'boolean' and tostring(v) or v
            end
            function report.value(name, v, element)
              if name == 'meta' or name == 'json' or name == 'notify' or name == 'then' or name == 'else' then return (Raw.member(element, name)) end
              if type(v) ~= 'table' then return report.text(v) end
              local lines = {}
              if #v > 0 then
                for n, value in ipairs(v) do lines[n] = report.value('', value) end
                return table.concat(lines, ' ')
              end
              for header, value in pairs(v) do lines[#lines + 1] = header .. ': ' .. report.text(value) end
              table.sort(lines)
              return table.concat(lines, ' ')
            end
            Call.define('reader', {}, function(c)
              local ARGV, verdicts = c.ARGV, {}
              for n = 2, #ARGV do
                local j, reason = Gate.read(ARGV[n])
                local all = {}
                for _, field in ipairs(FIELDS) do
                  local name = field[1]
                  if not reason and j[name] ~= nil and (name ~= 't' or not (j.url or j.urls)) then all[#all + 1] = name .. '=' .. report.value(name, j[name], ARGV[n]) end
                end
                verdicts[#verdicts + 1] = reason and 'refused ' .. (string.match(reason, '^element') or string.match(reason, '^url: is missing') or reason) or table.concat(all, '\\n')
              end
              return verdicts
            end)
            """
    }

    @Test("both parsers agree on every case of the tables") func table() async throws {
        let readers = Readers(try await QueueFixture())
        let elements = InvalidElements.all.map(\.element) + ValidElements.all.map { Array($0.utf8) }
        for (element, verdict) in zip(elements, try await readers.claim(elements)) {
            #expect(verdict == readers.contract(element), "\(String(decoding: element.prefix(80), as: UTF8.self))")
        }
    }

    @Test("both parsers agree on an odd character at each place of a text, in each field and each name")
    func odd() async throws {
        let readers = Readers(try await QueueFixture())
        for batch in OddElements.all.chunks(ofCount: 500) {
            for (element, verdict) in zip(batch, try await readers.claim(batch.map { Array($0.utf8) })) {
                let own = readers.contract(Array(element.utf8))
                #expect(
                    verdict == own, "the claim says \(verdict), Contract says \(own), of \(element.debugDescription)")
            }
        }
    }

    /// The environment variables HAUL_GRAMMAR_ELEMENTS and HAUL_GRAMMAR_SEED set the number of elements and the seed.
    @Test("both parsers agree on random elements") func random() async throws {
        let environment = ProcessInfo.processInfo.environment
        let count = environment["HAUL_GRAMMAR_ELEMENTS"].flatMap { Int($0) } ?? 20_000
        let seed = environment["HAUL_GRAMMAR_SEED"].flatMap { UInt64($0) } ?? UInt64.random(in: 0..<1 << 32)
        let readers = Readers(try await QueueFixture())
        var elements = RandomElements(seed: seed)
        var accepted = 0
        for start in stride(from: 0, to: count, by: 500) {
            let batch = (start..<min(start + 500, count)).map { _ in elements.next() }
            for (element, verdict) in zip(batch, try await readers.claim(batch)) {
                let own = readers.contract(element)
                if !own.hasPrefix("refused") { accepted += 1 }
                guard verdict != own else { continue }
                let shown = String(decoding: element, as: UTF8.self)
                Issue.record(
                    "seed \(seed): the claim says \(verdict), Contract says \(own), of \(shown.debugDescription)")
                return
            }
        }
        // The sample must have many valid elements and many invalid ones.
        #expect(accepted > count / 20 && accepted < count * 19 / 20, "\(accepted)")
    }
}

/// Elements with a text that a rule of the contract reads, and in it one character that only some functions take for a
/// letter, a separator or nothing.
private enum OddElements {
    private static let templates: [(before: String, text: String, after: String)] =
        Job.Kind.allCases.flatMap { kind in
            let upload = kind == .upload ? #","file":"a""# : ""
            let names = JobField.forbiddenHeaders.union(JobField.forbiddenInRequests).sorted()
            return (names + [JobField.forbiddenPrefix + "match", "X-Key"]).map { name in
                (#"{"kind":"\#(kind.rawValue)","url":"http://h/"\#(upload),"headers":{""#, name, #"":"x"}}"#)
            }
        } + [
            (#"{"url":"http://h/",""#, "meta", #"":1}"#), (#"{"url":""#, "HTTPS://u:k@Hk.example:80/K?k", #""}"#),
            (#"{"url":"http://"#, "[::1]:80", #"/"}"#), (#"{"url":"http://"#, "1.2.3.4", #"/"}"#),
            (#"{"url":"http://h/","path":""#, "K/.haul-k", #""}"#), (#"{"url":"http://h/","path":""#, "a/../b", #""}"#),
            (#"{"url":"http://h/","id":""#, "aK", #""}"#), (#"{"url":"http://h/","reply_to":""#, "K", #""}"#),
            (#"{"url":"http://h/","batch":""#, "K", #""}"#), (#"{"url":"http://h/","batch":{""#, "name", #"":"K"}}"#),
            (#"{"url":"http://h/","method":""#, "LOCK", #""}"#), (#"{"url":"http://h/","if_exists":""#, "fail", #""}"#),
            (#"{"url":"http://h/","content_type":""#, "text/k; k=k", #""}"#),
            (#"{"url":"http://h/","kind":""#, "task", #""}"#),
            (#"{"url":"http://h/","checksum":""#, "md5:0123456789ABCDEF0123456789abcdef", #""}"#),
            (#"{"kind":"request","url":"http://h/","id":"a","body_base64":""#, "AAEC/K==", #""}"#),
            (#"{"kind":"request","url":"http://h/","expect":[""#, "200-299", #""]}"#),
            (#"{"kind":"request","url":"http://h/","query":{""#, "k", #"":"k"}}"#),
            (#"{"kind":"upload","url":"http://h/","file":"a","protocol":""#, "tus", #""}"#),
            (#"{"kind":"upload","url":"http://h/","file":"a","content_digest":""#, "sha-256", #""}"#),
            (#"{"kind":"upload","url":"http://h/","files":[{"file":"a","type":"a/b",""#, "name", #"":"k"}]}"#),
        ]
    /// The Kelvin sign and the dotted I become ASCII in lower case, and the long s in upper case. A combining mark joins
    /// the character before it. The Greek question mark is canonically equivalent to a semicolon. The wide full stop
    /// separates labels of a host name. Others are blanks to some functions, or none at all.
    private static let characters = [
        "\u{212A}", "\u{130}", "\u{17F}", "\u{301}", "\u{37E}", "\u{FF0E}", "\u{A0}", "\u{85}", "\u{200D}", "\u{FEFF}",
        "😀",
        "\u{7F}", "\\u0000", "\\t", "\\r\\n", " ",
    ]

    static let all: [String] = templates.flatMap { before, text, after in
        text.indices.flatMap { index in
            characters.flatMap { character in
                [text[index...], text[index...].dropFirst()].map { before + text[..<index] + character + $0 + after }
            }
        } + characters.map { before + text + $0 + after }
    }
}

/// Known elements and random ones of the contract's fields. Most of them are then changed at random.
private struct RandomElements {
    private var random: SeededGenerator
    private let known = (InvalidElements.all.map(\.element) + ValidElements.all.map { Array($0.utf8) }).filter {
        $0.count < 600
    }
    private static let values = [
        "1", "0", "-0", "1e2", "1.5", "NaN", "01", "1.", "-.5", "1e400", "9007199254740993", "null", "true", "[]", "{}",
        "\"\"",
        "\"a\"", "\"http://h/\"", "[\"http://h/\"]", "{\"A\":\"b\"}", "{\"If-X\":\"b\"}", "\"a/b\"", "\"../a\"",
        "\"GET\"", "\"reuse\"",
        "\"http://[::1]:8/\"", "\"http://1.2.3.4:80/\"", "\"http://u:p@h:70000/\"", "\"http://a..b/\"",
        "\"md5:0123456789abcdef0123456789abcdef\"",
        "\"request\"", "\"upload\"", "\"tus\"", "\"sha-256\"", "[{\"file\":\"a\"}]",
        "[{\"file\":\"a\",\"name\":\"n\"}]",
        "[{\"file\":\"/\"}]", "\"PATCH\"", "[200,\"400-404\"]", "\"QUJD\"", "{\"a\":1,\"b\":true}", "[1,{\"a\":1}]",
        "{\"a\":1,\"a\":2}",
        "\"\\ud83d\\ude00\"", "\"\\ud800\"", "\"\\\"\\\\\"", "\"中é\"",
    ].map { Array($0.utf8) }
    private static let scraps: [[UInt8]] =
        [
            "\"", "\\", ",", ":", "{", "}", "[", "]", " ", "\t", "\n", "\u{0}", "\u{1f}", "\u{7f}", "\u{b}", "-", "+",
            ".", "0", "e", "E", "\\u00",
            "\\u0000", "\\\"", "\\\\", "@", ":0", ":65535", "[::", "]", "%", "/", "//", "..", ".haul", "é", "中", "😀",
            "\u{301}", "NaN", "null",
            "\"meta\":", "\"m\\u0065ta\":1,", "\"url\":\"http://x/\",", "\"id\":\"i\",", "[]", "{}", "1e9", "-0", "If-",
            "\r",
        ].map { Array($0.utf8) } + [
            [0x80], [0xC3], [0xE4, 0xB8], [0xED, 0xA0, 0x80], [0xF4, 0x90], [0xE0, 0x80], [0xFF], [0xEF, 0xBB, 0xBF],
        ]

    init(seed: UInt64) { random = SeededGenerator(state: seed) }

    mutating func next() -> [UInt8] {
        var element = Int.random(in: 0..<3, using: &random) == 0 ? known.randomElement(using: &random)! : job()
        guard Int.random(in: 0..<3, using: &random) > 0 else { return element }
        for _ in 0..<Int.random(in: 1...3, using: &random) {
            let start = Int.random(in: 0...element.count, using: &random)
            let end = min(element.count, start + Int.random(in: 0...4, using: &random))
            switch Int.random(in: 0..<5, using: &random) {
            case 0: element.removeSubrange(start..<end)
            case 1: element.insert(contentsOf: element[start..<end], at: start)
            case 2: element.insert(UInt8.random(in: 0...255, using: &random), at: start)
            case 3: element.replaceSubrange(start..<end, with: Self.scraps.randomElement(using: &random)!)
            default: element.insert(contentsOf: Self.scraps.randomElement(using: &random)!, at: start)
            }
        }
        return element
    }

    private mutating func job() -> [UInt8] {
        var members: [[UInt8]] = [Array(#""url":"http://h/a""#.utf8), Array(#""id":"x""#.utf8)]
        if Int.random(in: 0..<6, using: &random) == 0 { members.removeFirst() }
        switch Int.random(in: 0..<6, using: &random) {
        case 0, 1: members.append(Array(#""kind":"request""#.utf8))
        case 2: members += [#""kind":"upload""#, #""file":"a""#].map { Array($0.utf8) }
        case 3: members += [#""kind":"upload""#, #""files":[{"file":"a"}]"#].map { Array($0.utf8) }
        default: break
        }
        for _ in 0..<Int.random(in: 0...4, using: &random) {
            let name =
                Int.random(in: 0..<5, using: &random) == 0 ? "x" : JobField.all.randomElement(using: &random)!.name
            members.append(Array("\"\(name)\":".utf8) + Self.values.randomElement(using: &random)!)
        }
        members.shuffle(using: &random)
        return Array("{".utf8) + Array(members.joined(separator: Array(",".utf8))) + Array("}".utf8)
    }
}
