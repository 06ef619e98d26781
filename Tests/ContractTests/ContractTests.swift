import HaulContract
import HaulTestSupport
import Testing

@Suite struct JSONTests {
    @Test("values keep their raw text") func rawText() throws {
        let json = try JSON(#"{"meta": {"a":[ ],"n":12345678901234567890} , "x":1e3}"#)
        #expect(json.members?.first?.raw == #"{"a":[ ],"n":12345678901234567890}"#)
        #expect(json["x"]?.integer == 1000)
    }

    @Test("strings are read with all escapes, and written safely") func strings() throws {
        #expect(try JSON(#""\u00e9\ud83d\ude00\n""#).string == "é😀\n")
        #expect(try JSON(JSON.quoted("a\"\\\u{1}\n")).string == "a\"\\\u{1}\n")
    }

    @Test(
        "what is no JSON is refused",
        arguments: ["", "{", "[1,]", "{\"a\" 1}", "01", "1.", "nul", "\"\u{1}\"", "\"\\ud800\"", "{} x"])
    func refused(_ text: String) { #expect(throws: JSON.SyntaxError.self) { try JSON(text) } }

    @Test("deep nesting is refused, not followed") func depth() {
        #expect(throws: JSON.SyntaxError.self) { try JSON(String(repeating: "[", count: 100_000)) }
    }
}

@Suite struct JobTests {
    @Test("what is written oddly is read", arguments: ValidElements.all) func odd(_ element: String) throws {
        let job = try Job(element: element.utf8)
        #expect(job.urls.first?.lowercased().hasPrefix("http") == true)
    }

    @Test("a whole job is read") func whole() throws {
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

    @Test("each wrong value is refused with its field's name", arguments: InvalidElements.all)
    func invalid(_ vector: InvalidElements) {
        #expect { try Job(element: vector.element) } throws: { ($0 as? Job.Invalid)?.field == vector.field }
    }

    @Test("secrets of a URL are masked") func masked() {
        #expect(MaskedURL.text("https://u:p@h/a?sig=1#f") == "https://h/a?[masked]")
        #expect(MaskedURL.text("http://h/a@b") == "http://h/a@b")
        #expect(MaskedURL.text("http://u@\u{301}:p@h/a@b") == "http://h/a@b")
        #expect(MaskedURL.text("//u:p@h?a://b@c") == "//u:p@h?[masked]")
    }
}

@Suite struct ByteIntervalsTests {
    @Test("intervals merge where they touch or overlap, in any order") func merge() {
        let set = ByteIntervals([10..<20, 0..<5, 30..<40, 5..<10, 15..<32])
        #expect(set.intervals == [0..<40])
        #expect(set.count == 40)
    }

    @Test("random insertions equal a set of bytes") func random() {
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
