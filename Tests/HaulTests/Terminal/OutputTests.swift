import HaulContract
import HaulTestSupport
import Testing

@testable import HaulBus
@testable import HaulTerminal
@testable import haul

/// How texts, ages and tables are printed.
@Suite struct OutputTests {
    @Test("widths of texts are those of a terminal") func columns() {
        #expect(Columns.of("abc") == 3)
        #expect(Columns.of("\u{6f22}\u{5b57}") == 4)
        #expect(Columns.of("e\u{301}") == 1)
        #expect("\u{6f22}\u{5b57}\u{6f22}".truncated(to: 4) == "\u{6f22}…")
        #expect("films/a/film.bin".truncatedAtStart(to: 9) == "…film.bin")
        #expect("ab".padded(to: 4) == "ab  " && "ab".aligned(to: 4) == "  ab")
        #expect("\u{6f22}\u{5b57}ab".pieces(of: 3) == ["\u{6f22}", "\u{5b57}a", "b"])
    }

    @Test("characters that control, hide or reverse a text are replaced") func harmless() {
        #expect(
            "a\u{1B}b\u{9B}c\u{202E}d\u{200B}e\u{2028}f".printable == "a\u{FFFD}b\u{FFFD}c\u{FFFD}d\u{FFFD}e\u{FFFD}f")
        #expect("\u{6f22}e\u{301} ok".printable == "\u{6f22}e\u{301} ok")
    }

    @Test(
        "ages are short",
        arguments: [
            (0, "0s"), (-5, "0s"), (119_999, "119s"), (120_000, "2m"), (7_195_000, "119m"), (7_200_000, "2h"),
            (172_799_000, "47h"), (172_800_000, "2d"), (864_000_000, "10d"),
        ])
    func ages(_ milliseconds: Int64, _ text: String) { #expect(Age.text(milliseconds) == text) }

    @Test("a greater age never reads as a smaller one") func agesGrow() throws {
        var last: Int64 = 0
        for seconds in stride(from: Int64(0), to: 400_000, by: 7) {
            let shown = try #require(Age.milliseconds(Age.text(seconds * 1000)))
            #expect(shown >= last, "\(seconds)")
            last = shown
        }
    }

    @Test("times of options have units") func times() {
        #expect(Age.milliseconds("90") == 90_000 && Age.milliseconds("10m") == 600_000)
        #expect(Age.milliseconds("1w") == 604_800_000)
        for text in ["", "m", "-1s", "1.5h", "10x", "99999999999999999999"] { #expect(Age.milliseconds(text) == nil) }
        #expect(Age.date(0) == "1970-01-01 00:00:00 UTC")
    }

    @Test("a table is aligned, omits empty columns, and fits a terminal") func table() {
        var table = Table([
            .init(title: "ID", minWidth: 4), .init(title: "EMPTY"), .init(title: "SIZE", isNumber: true),
            .init(title: "NOTE", rank: 1), .init(title: "FILE", minWidth: 6, keepsEnd: true),
        ])
        table.add(["a", "", "1", "note", "short"])
        table.add(["a-long-identifier", "", "1000", "", "a/very/long/path/to/film.bin"])
        let wide = table.lines(width: nil)
        #expect(wide[0] == "ID                 SIZE  NOTE  FILE")
        #expect(wide[1] == "a                     1  note  short")
        for width in [80, 60, 40, 30, 20, 10, 5] {
            for line in table.lines(width: width) { #expect(Columns.of(line) <= width, "\(width): \(line)") }
        }
        let narrow = table.lines(width: 20)
        #expect(!narrow[0].contains("NOTE") && narrow[2].hasSuffix("m.bin"), "\(narrow)")
        #expect(table.omitted(width: 20) == ["NOTE"])
        #expect(table.omitted(width: nil).isEmpty)
    }

    @Test("at 80 columns a list says for which host a queued job waits") func host() {
        let rows = (0..<3).map { number in
            var row = JobRow(
                id: "4519d1685457600\(number)", state: .queued,
                fields: [
                    "state": "queued", "url": "http://a.example:56263/films/\(number)/film.bin", "updated": "1000",
                    "message": number == 0 ? "the server is unavailable (HTTP 503)" : "",
                ])
            row.waiting = "host a.example:56263 (limit connections 1)"
            return row
        }
        let lines = JobTable.lines(rows, now: 61_000, width: 80)
        #expect(lines.count == 4 && lines.dropFirst().allSatisfy { $0.contains("host a.example:56263") }, "\(lines)")
        #expect(lines.allSatisfy { Columns.of($0) <= 80 }, "\(lines)")
    }

    @Test("limits of a host are written in a few words") func limits() throws {
        let json = try JSON(#"{"connections":4,"starts":"10/s","rate":5000000,"max_bytes":2000}"#)
        #expect(StatsFacts.limits(json) == "connections 4, starts 10/s, rate 5.0 MB/s, max_bytes 2.0 kB")
        #expect(StatsFacts.limits(nil) == "")
    }

    @Test("at 80 columns it is said how long a host backs off") func backoff() {
        let text = Bottleneck(.backoff, "downloads.archive.example.org:8443", until: 60_000).text(at: 0)
        #expect(text == "host downloads.archive.example.org:8443: backs off for 60s")
    }

    @Test("the page of a running job says that its worker is lost, and shows no speed then")
    func lostWorker() {
        let running = JobRecord(
            id: "r", state: .running,
            fields: [
                "state": "running", "worker": "w1", "started": "1000", "speed": "7000", "total": "90000",
                "received": "9000",
            ])
        var page = JobPage(record: running, now: 3000)
        #expect(page.facts.map(\.text).prefix(3).joined(separator: "|").contains("left"))
        page.workerFault = "is silent for 2s"
        #expect(page.facts.first?.text == "running on w1 for 2s; the worker is silent for 2s")
        #expect(!page.facts.contains { $0.text.contains("left") || $0.text.contains("/s") })
    }

    @Test("a job's page shows the worker and the mirror, and has a bar only for files")
    func page() {
        func lines(_ fields: [String: String]) -> [String] {
            let common = ["received": "20", "total": "40", "finished": "1000", "worker": "w1", "url": "http://a/f"]
            let record = JobRecord(
                id: "j", state: .failed, fields: common.merging(fields) { $1 }, offsets: ByteIntervals())
            return JobPage(record: record, now: 3000).lines(width: 80, isUnicode: false)
        }
        let file = lines(["source": "http://b/f"])
        #expect(file.contains("  state     failed 2s ago on w1"), "\(file)")
        #expect(file.contains("  from      http://b/f") && file[1].contains("#"), "\(file)")
        let failures =
            #"[{"ended":1000,"worker":"w2","message":"its worker was lost"},{"ended":2000,"worker":"w3","error":"http_503","message":"busy"}]"#
        let failed = lines(["failures": failures])
        #expect(failed.contains("  failed    2s ago on w2: its worker was lost"), "\(failed)")
        #expect(failed.contains("  failed    1s ago on w3: http_503: busy"), "\(failed)")
        let request = lines(["kind": "request", "source": "http://a/f"])
        #expect(!request.contains { $0.contains("#") || $0.contains("progress") || $0.contains("from") }, "\(request)")
    }

    @Test("a job that is due, or whose time may not be read, does not seem to start later") func due() {
        func state(at due: Int64?) -> String? {
            let fields = ["updated": "1000"]
            return JobPage(record: JobRecord(id: "j", state: .scheduled, fields: fields, dueAt: due), now: 3000).facts
                .first?.text
        }
        #expect(state(at: 63_000) == "scheduled, starts in 60s")
        #expect(state(at: 2000) == "scheduled, starts now")
        #expect(state(at: nil) == "scheduled 2s ago")
    }

    @Test("quiet, ending and lost workers are counted apart") func workerCounts() {
        func text(_ states: (state: String, seen: String)...) -> String {
            let workers = states.map { (name: "w", fields: ["state": $0.state, "seen": $0.seen]) }
            return WorkerCounts(workers, now: 100_000).text
        }
        #expect(text() == "0 workers")
        #expect(text(("working", "99000"), ("working", "99000"), ("quiet", "99000")) == "3 workers, 1 quiet")
        #expect(text(("quiet", "99000"), ("quiet", "99000"), ("working", "1000")) == "2 workers, all quiet, 1 lost")
        #expect(text(("ending", "99000"), ("quiet", "99000")) == "2 workers, 1 quiet, 1 ending")
        #expect(text(("working", "1000")) == "0 workers, 1 lost")
    }

    @Test("a bar shows which bytes are there") func bar() {
        let have = ByteIntervals([0..<50, 75..<80])
        #expect(IntervalBar(have, total: 100).text(width: 10, isUnicode: false) == "#####..+..")
        #expect(IntervalBar(ByteIntervals(), total: 100, received: 20).text(width: 5, isUnicode: false) == "#....")
        #expect(IntervalBar(ByteIntervals([0..<1]), total: 1).text(width: 3, isUnicode: false).count == 3)
        #expect(
            IntervalBar(ByteIntervals([0..<(1 << 53)]), total: 1 << 53).text(width: 200, isUnicode: true).count == 200)
        #expect(Sparkline.text([0, 1, 2], width: 5, isUnicode: false) == "  _=#")
    }

    @Test("words are wrapped into the next line") func wrapped() {
        #expect(JobPage.wrapped("one two three", width: 7) == ["one two", "three"])
        #expect(JobPage.wrapped("abcdefghij k", width: 4) == ["abcd", "efgh", "ij k"])
    }
}
