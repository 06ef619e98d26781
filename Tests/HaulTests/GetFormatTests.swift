import HaulActivities
import HaulContract
import Testing

@testable import HaulDirect
@testable import HaulTerminal
@testable import haul

/// What `haul get` parses and shows, without a server.
@Suite struct GetFormatTests {
    @Test(
        "numbers of bytes are parsed with the usual units",
        arguments: [
            ("0", 0), ("500", 500), ("64k", 65_536), ("5M", 5 << 20), ("1.5G", 3 << 29), ("5MiB", 5 << 20),
            ("5MB", 5_000_000),
            ("5 mb/s", 5_000_000), ("1t", 1 << 40), ("", nil), ("M", nil), ("5X", nil), ("-5", nil), ("1.5", nil),
            ("99999999999T", nil), ("0x10", nil), ("1e3", nil),
        ] as [(String, Int64?)])
    func counts(_ text: String, _ count: Int64?) { #expect(ByteUnits.count(text) == count) }

    @Test("lines of checksums are parsed in both forms, and other lines are ignored") func checksums() {
        let digest = String(repeating: "0a", count: 32)
        for line in [
            "\(digest)  a b.iso", "\(digest.uppercased()) *a b.iso", "SHA256 (a b.iso) = \(digest)",
            "\(digest)  ./a b.iso",
        ] {
            let found = ChecksumFile.read(line)
            #expect(found?.name == "a b.iso" && found?.checksum.description == "sha256:\(digest)", "\(line)")
        }
        for line in ["", "# x", "-----BEGIN PGP SIGNED MESSAGE-----", "0a0a  short", "\(digest) x", "SHA256 (x) = 00"] {
            #expect(ChecksumFile.read(line) == nil, "\(line)")
        }
    }

    @Test("a netrc file is parsed into tokens, and its line breaks do not matter") func netrc() {
        let netrc = Netrc(lines: [
            "# comment", "machine a.test login me password secret machine B.test", "login you", "password \"a \\\"b\"",
            "macdef init", "machine c.test login no password no", "", "default login any password one",
        ])
        #expect(netrc.login(for: "a.test")?.password == "secret")
        #expect(netrc.login(for: "b.test")?.user == "you" && netrc.login(for: "b.test")?.password == "a \"b")
        #expect(netrc.login(for: "c.test")?.user == "any")
    }

    private func view(_ name: String, received: Int64 = 0, total: Int64? = nil, speed: Int64 = 0) -> TransferView {
        var view = TransferView(name: name)
        (view.phase, view.progress.received, view.progress.total) = (.running, received, total)
        (view.progress.speed, view.progress.connections) = (speed, 1)
        return view
    }

    @Test("bars fit the width and the height of the terminal", arguments: [20, 40, 80, 200]) func bars(_ width: Int) {
        var views = [
            view("short", received: 5 << 20, total: 10 << 20, speed: 1 << 20),
            view(String(repeating: "very long name ", count: 20) + ".iso", received: 1, total: nil, speed: 5),
            view("\u{65E5}\u{672C}\u{8A9E}.iso", received: 1 << 40, total: 3 << 40, speed: 1 << 30),
            view("e\u{301}\u{1B}[31m", received: 7, total: 7),
        ]
        views[3].phase = .retrying(at: .now + .seconds(3), why: "http_503")
        for height in [3, 24] {
            let totals = TransferBars.Totals(done: 1, failed: 2, all: 10, doneBytes: 5)
            let lines = TransferBars.lines(views, totals, width: width, height: height)
            #expect(lines.count <= height - 1 && lines.allSatisfy { Columns.of($0) < width }, "\(lines)")
            #expect(!lines.joined().contains("\u{1B}"))
        }
        if width == 80 {
            let lines = TransferBars.lines(views, TransferBars.Totals(), width: 80, height: 24)
            #expect(lines[0].hasPrefix("short") && lines[0].contains("  50% "), "\(lines[0])")
            #expect(lines[0].hasSuffix("    5.2/10.5 MB    1.0 MB/s      5s"), "\(lines[0])")
            // The columns are those of each other row, whatever its name and numbers.
            #expect(Set(lines.prefix(3).map { Columns.of($0.prefix { $0 != "%" }) }).count <= 2, "\(lines)")
        }
    }

    @Test("columns do not depend on names and numbers, and are left out when the terminal is narrow")
    func columns() {
        func row(_ name: String, _ received: Int64, width: Int) -> String {
            var row = ProgressRow(name)
            (row.received, row.total, row.speed, row.eta) = (received, 4_800_000_000, 88_000_000, 27)
            return row.text(width: width, isUnicode: false)
        }
        for width in [20, 30, 40, 60, 79, 120, 200] {
            let (one, other) = (row("a", 999_999, width: width), row("longer.iso", 2_500_000_000, width: width))
            #expect(Columns.of(one) <= width && Columns.of(one) == Columns.of(other), "\(one)\n\(other)")
            #expect(one.count { $0 == "." || $0 == "#" } <= 36 && one.contains("0%"), "\(one)")
        }
        #expect(row("a", 2_500_000_000, width: 79).hasSuffix("2.5/4.8 GB   88.0 MB/s     27s"))
        #expect(row("a", 2_500_000_000, width: 40).hasSuffix(" 52%   88.0 MB/s     27s"))
        var waiting = ProgressRow("a")
        waiting.note = "http_503, again in 6s"
        #expect(waiting.text(width: 79).hasSuffix("  http_503, again in 6s"))
        #expect(Units.bytes(999) == "999 B" && Units.bytes(1000) == "1.0 kB" && Units.bytes(999_950) == "1.0 MB")
        #expect(Units.amount(0, of: 4_800_000_000) == "0.0/4.8 GB" && Units.amount(7, of: 70) == "7/70 B")
    }

    @Test("a shortened name keeps its beginning and its end") func shortened() {
        #expect("abcdefghij.iso".shortened(to: 9) == "abcd….iso")
        #expect("abc".shortened(to: 3) == "abc")
        #expect(Columns.of("\u{65E5}\u{672C}\u{8A9E}".shortened(to: 5)) <= 5)
    }
}
