import HaulTestSupport
import Testing

@testable import HaulContract

@Suite struct JSONTests {
    @Test("JSON values keep their raw text") func rawText() throws {
        let json = try JSON(#"{"meta": {"a":[ ],"n":12345678901234567890} , "x":1e3}"#)
        #expect(json.members?.first?.raw == #"{"a":[ ],"n":12345678901234567890}"#)
        #expect(json["x"]?.integer == 1000)
    }
    @Test("the members of a nested text share its bytes, so that its depth multiplies nothing") func shared() throws {
        func place(_ member: JSON.Member) -> Range<UInt> {
            member.bytes.withUnsafeBytes {
                let start = UInt(bitPattern: $0.baseAddress!)
                return start..<start + UInt($0.count)
            }
        }
        var member = try #require(try JSON(#"{"a":{"a":{"a":"text"}}}"#).members?.first)
        while let inner = member.value.members?.first {
            #expect(place(member).contains(place(inner).lowerBound), "\(inner.raw)")
            member = inner
        }
        #expect(member.raw == #""text""#)
    }

    @Test("an object is written on one line, whatever line breaks the JSON of its members has") func oneLine() throws {
        var object = JSONObject()
        object.set("a", json: "{\n\t\"b\":\r\n[1,\r2]\n}")
        object.set("c", "d\r\n")
        #expect(object.text == "{\"a\":{ \t\"b\":  [1, 2] },\"c\":\"d\\r\\n\"}")
        #expect(JSON.onOneLine(object.text) == object.text)
    }

    @Test("strings are read with all escapes, and written with the escapes that they need") func strings() throws {
        #expect(try JSON(#""\u00e9\ud83d\ude00\n""#).string == "é😀\n")
        #expect(try JSON(JSON.quoted("a\"\\\u{1}\n")).string == "a\"\\\u{1}\n")
    }

    @Test(
        "text that is not valid JSON is refused",
        arguments: ["", "{", "[1,]", "{\"a\" 1}", "01", "1.", "nul", "\"\u{1}\"", "\"\\ud800\"", "{} x"])
    func refused(_ text: String) { #expect(throws: JSON.SyntaxError.self) { try JSON(text) } }

    @Test("deeply nested JSON is refused and does not overflow the stack") func depth() {
        #expect(throws: JSON.SyntaxError.self) { try JSON(String(repeating: "[", count: 100_000)) }
    }
}

@Suite struct JobTests {
    @Test("valid elements in unusual notation are read", arguments: ValidElements.all)
    func odd(_ element: String) throws {
        let job = try Job(element: element.utf8)
        #expect(["http", "s3:/"].contains(job.urls.first?.lowercased().prefix(4)))
    }

    @Test("no default of a queue makes a valid element invalid") func defaults() throws {
        let values = [
            "path": #""a/b.bin""#, "if_exists": #""rename""#, "fresh_for": "60", "content_type": #""text/html""#,
            "headers": #"{"A":"b"}"#, "query": #"{"a":"b"}"#, "expect": "[200]", "max_response": "1024",
            "idempotent": "true",
            "connections": "2", "limit_rate": "1000", "max_bytes": "1000", "min_speed": "10", "retries": "2",
            "connect_timeout": "5", "stall_timeout": "5", "delay": "1", "deadline": "60", "reply_to": #""me""#,
            "notify": #"{"url":"https://h/","secret":"s"}"#, "meta": "[1]",
        ]
        let fields = JobField.all.filter(\.mayHaveDefault).map(\.name)
        #expect(Set(fields) == Set(values.keys))
        for element in ValidElements.all {
            for field in fields {
                _ = try Job(element: element.utf8, defaults: [(field, values[field]!)])
            }
            let job = try Job(element: element.utf8, defaults: values.map { ($0.key, $0.value) })
            #expect(job.retries == 2 || job.request.webhook != nil, "\(element)")
        }
    }

    /// With quadratic work it would take hours.
    @Test("a step's text is filled in with work that grows with its length", .timeLimit(.minutes(1))) func longStep()
        throws
    {
        let letters = String(repeating: "a", count: 4 << 20)
        for text in ["$" + letters, "${" + letters, letters] {
            let step = try #require(Job.Step.list(try JSON(#"{"url":"http://h/","path":"\#(text)"}"#))?.first)
            #expect(step.element(["error": "x"], id: "i").text.utf8.count == JobField.maxElementBytes + 1)
        }
    }

    @Test("the fields of an element are read, and unknown fields are listed") func whole() throws {
        let job = try Job(
            element:
                #"{"url":"https://a/b","id":"x","path":"d/","checksum":"md5:0123456789ABCDEF0123456789abcdef","headers":{"A":"b"},"meta":[ ],"retries":2,"nice":1}"#
                .utf8)
        #expect(job.urls == ["https://a/b"])
        #expect(job.checksum?.description == "md5:0123456789abcdef0123456789abcdef")
        #expect(job.meta == "[ ]")
        #expect(job.retries == 2)
        #expect(job.unknownFields == ["nice"])
    }

    @Test("an invalid element is refused, and the error names the field", arguments: InvalidElements.all)
    func invalid(_ vector: InvalidElements) {
        #expect { try Job(element: vector.element) } throws: { ($0 as? Job.Invalid)?.field == vector.field }
    }

    @Test("credentials, query and fragment of a URL are masked") func masked() {
        #expect(MaskedURL.text("https://u:p@h/a?sig=1#f") == "https://h/a?[masked]")
        #expect(MaskedURL.text("http://h/a@b") == "http://h/a@b")
        #expect(MaskedURL.text("http://u@\u{301}:p@h/a@b") == "http://h/a@b")
        #expect(MaskedURL.text("//u:p@h?a://b@c") == "//u:p@h?[masked]")
    }
}

@Suite struct ByteIntervalsTests {
    @Test("intervals that touch or overlap are merged, in whatever order they come") func merge() {
        let set = ByteIntervals([10..<20, 0..<5, 30..<40, 5..<10, 15..<32])
        #expect(set.intervals == [0..<40])
        #expect(set.count == 40)
    }

    @Test("intervals and gaps after random insertions match a set of single bytes") func random() {
        var generator = SystemRandomNumberGenerator()
        for _ in 0..<200 {
            var set = ByteIntervals()
            var bytes = Set<Int64>()
            for _ in 0..<20 {
                let start = Int64.random(in: 0..<90, using: &generator)
                let range = start..<(start + Int64.random(in: 0..<10, using: &generator))
                set.insert(range)
                bytes.formUnion(range)
            }
            #expect(Set(set.intervals.flatMap { Array($0) }) == bytes)
            #expect(Set(set.gaps(in: 100).flatMap { Array($0) }) == Set(0..<100).subtracting(bytes))
        }
    }
}
