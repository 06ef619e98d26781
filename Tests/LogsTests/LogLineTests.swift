import Foundation
import Glibc
import HaulContract
import HaulLogs
import HaulTestSupport
import Logging
import Testing

@Suite struct LogLineTests {
    /// The lines that a logger writes.
    private func lines(
        _ format: LogFormat, level: Logger.Level = .trace, _ log: (Logger) -> Void
    ) throws -> [String] {
        let directory = TemporaryDirectory()
        let descriptor = open(directory.file("log"), O_WRONLY | O_CREAT, 0o600)
        defer { close(descriptor) }
        let output = LogOutput(descriptor: descriptor, format: format)
        var logger = Logger(label: "test", factory: { _ in LineLogHandler(format, to: output) })
        logger.logLevel = level
        logger[metadataKey: "queue"] = "default"
        log(logger)
        output.flush(within: .seconds(10))
        let text = String(decoding: directory.contents("log") ?? [], as: UTF8.self)
        return text.split(separator: "\n", omittingEmptySubsequences: false).dropLast().map(String.init)
    }

    private func withoutTime(_ line: String) -> String {
        line.replacing(#/time=\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z /#, with: "")
    }

    @Test("a log line begins with time, level and message, followed by the queue and the id") func order() throws {
        let line = try lines(.logfmt) { log in
            log.warning(
                "job failed",
                metadata: ["zeal": "1", "error": "http_404", "id": "a", "bytes": .stringConvertible(Int64(7))])
        }
        #expect(
            line.map(withoutTime) == [
                "level=warning msg=\"job failed\" queue=default id=a bytes=7 error=http_404 zeal=1"
            ])
        #expect(line[0] != withoutTime(line[0]))
    }

    @Test(
        "a value is quoted if its end would be ambiguous otherwise",
        arguments: [
            ("plain", "plain"), ("", "\"\""), ("a b", "\"a b\""), ("a=b", "\"a=b\""),
            ("say \"no\"", "\"say \\\"no\\\"\""),
            ("back\\slash", "\"back\\\\slash\""), ("one\ntwo\r\tthree", "\"one\\ntwo\\r\\tthree\""),
            ("\u{1B}[31mred", "\"\\u001b[31mred\""), ("grün", "\"grün\""),
            ("a\u{202E}b\u{2028}c\u{85}", "\"a\\u202eb\\u2028c\\u0085\""),
            ("\u{E0001}", "\"\\udb40\\udc01\""),
        ])
    func quoting(value: String, written: String) throws {
        let line = try lines(.logfmt) { $0.info("said", metadata: ["it": "\(value)"]) }
        #expect(line.map(withoutTime) == ["level=info msg=said queue=default it=\(written)"])
    }

    @Test("characters that could end a key are replaced") func keys() throws {
        let line = try lines(.logfmt) { $0.info("said", metadata: ["a b=\"c\"\n": "1"]) }
        #expect(line.map(withoutTime) == ["level=info msg=said queue=default a_b__c__=1"])
    }

    @Test("the JSON format writes one object per line, and numbers stay numbers") func json() throws {
        let output = try lines(.json) { log in
            log.notice(
                "a \"b\"\n\u{202E}",
                metadata: [
                    "bytes": .stringConvertible(Int64(7)), "seconds": .stringConvertible(0.5), "list": ["x", "y"],
                ])
        }
        #expect(output.count == 1)
        let object = try JSON(output[0])
        #expect(object["msg"]?.string == "a \"b\"\n\u{202E}")
        #expect(!output[0].contains("\u{202E}"))
        #expect(object["level"]?.string == "notice")
        #expect(object["queue"]?.string == "default")
        #expect(object["bytes"]?.integer == 7)
        #expect(object["seconds"]?.double == 0.5)
        #expect(object["list"]?.array?.compactMap(\.string) == ["x", "y"])
        #expect(object["time"]?.string?.wholeMatch(of: #/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/#) != nil)
    }

    @Test("a timestamp is written as a date and time in UTC") func timestamps() {
        #expect(Timestamp.text(0) == "1970-01-01T00:00:00.000Z")
        #expect(Timestamp.text(1_763_819_101_007) == "2025-11-22T13:45:01.007Z")
    }

    @Test("logging does not wait for a slow reader, and reports the lines that were dropped") func slowReader()
        async throws
    {
        var ends: [Int32] = [0, 0]
        #expect(pipe(&ends) == 0)
        let output = LogOutput(descriptor: ends[1], format: .logfmt, bound: 100_000)
        let log = Logger(label: "test", factory: { _ in LineLogHandler(.logfmt, to: output) })
        // The pipe holds 64 KiB, and it is not read yet.
        for number in 0..<5_000 { log.info("line", metadata: ["number": "\(number)"]) }
        let reader = Task.detached { [ends] in
            var (text, bytes) = ("", [UInt8](repeating: 0, count: 65_536))
            while case let count = read(ends[0], &bytes, bytes.count), count > 0 {
                text += String(decoding: bytes[..<count], as: UTF8.self)
            }
            return text
        }
        output.flush(within: .seconds(20))
        close(ends[1])
        let text = await reader.value
        close(ends[0])
        #expect(text.contains("number=0\n"))
        #expect(text.contains("number=999\n"))
        #expect(
            text.contains(
                #/level=warning msg="lines of the log were dropped because they were not read in time" lines=\d+\n/#))
    }
}
