import HaulBus
import HaulContract
import HaulTestSupport
import Testing

@testable import HaulTerminal
@testable import haul

/// The screens of `haul top`, without a terminal.
@Suite struct TopLayoutTests {
    private static let sizes = [(80, 24), (200, 60), (40, 10), (120, 30), (24, 6), (20, 4), (1, 1)]

    /// A model with this number of running jobs. Some have names that would harm a terminal or its columns.
    static func model(_ count: Int) -> TopModel {
        var data = TopData()
        data.now = 1_795_000_000_000
        data.counts = [.running: count, .failed: 3, .completed: 1_234_567]
        let names = [
            "films/film.bin", "\u{6f22}\u{5b57}\u{6f22}\u{5b57}/\u{5b57}.iso", "\u{1B}[2J\u{1B}[31mred",
            "a\u{202E}gpj.exe",
            "e\u{301}\u{301}\u{301}te\u{301}", "line\nbreak\ttab", "\u{200B}\u{FEFF}zero",
            String(repeating: "long/", count: 60),
            "\u{1F469}\u{200D}\u{1F680}.bin", "\u{9B}31m",
        ]
        data.rows = (0..<count).map { number in
            JobRow(
                id: "job-\(number)", state: .running,
                fields: [
                    "url": "https://host\(number % 7).example.org/\(number)", "path": names[number % names.count],
                    "received": String(number * 1000), "total": String(10_000_000), "speed": String(number),
                    "worker": "worker-\(number % 5)", "started": String(data.now - Int64(number) * 1000),
                ])
        }
        data.workers = (0..<12).map {
            WorkerRow(
                name: "worker-\($0)", fields: ["seen": "1795000000000", "slots": "8", "running": "3"], now: data.now)
        }
        data.workerCount = 12
        data.failures = ["http_404", "http_404", "dns\u{1B}[1m"].enumerated().map { index, error in
            JobRow(id: "f\(index)", state: .failed, fields: ["error": error, "url": "https://bad.example.org/x"])
        }
        data.queues = ["default", "other"].map { TopModel.QueueRow(name: $0) }
        var model = TopModel(queue: "default")
        model.apply(data)
        return model
    }

    private func modes(of model: TopModel) -> [TopModel] {
        var models = [model]
        for keys: [Key] in [[.enter], [.character("/"), .character("\u{5b57}")], [.character("?")], [.character("c")]] {
            var changed = model
            for key in keys { _ = changed.handle(key, height: 10) }
            models.append(changed)
        }
        var hurt = model
        hurt.errorMessage = "Redis is gone\u{1B}[0m"
        return models + [hurt]
    }

    @Test(
        "every screen has exactly its rows and columns, and no escape sequence",
        arguments: [0, 1, 20, 1000, 10_000])
    func exact(_ count: Int) {
        for model in modes(of: Self.model(count)) {
            for (width, height) in Self.sizes {
                for isUnicode in [true, false] {
                    let rows = TopLayout(model: model, width: width, height: height, isUnicode: isUnicode).rows
                    #expect(rows.count == height)
                    for row in rows {
                        #expect(row.columns == width, "\(width)x\(height): \(row.text)")
                        let harmful = row.text.unicodeScalars.filter {
                            [.control, .format, .lineSeparator, .paragraphSeparator].contains(
                                $0.properties.generalCategory)
                        }
                        #expect(harmful.isEmpty, "\(row.text)")
                    }
                }
            }
        }
    }

    private func text(_ model: TopModel, _ width: Int = 80, _ height: Int = 24) -> String {
        TopLayout(model: model, width: width, height: height).rows.map(\.text).joined(separator: "\n")
    }

    @Test("a screen of 80 by 24 shows totals, workers, failures, jobs and keys") func small() {
        let screen = text(Self.model(10_000))
        for words in ["running 10.0k", "12 workers", "worker-0", "http_404", "job-9999", "1-13 of 10000", "q quit"] {
            #expect(screen.contains(words), "\(words):\n\(screen)")
        }
        #expect(!screen.contains("job-9980 "))
    }

    @Test("failures that are left out are counted, and a pause has a name") func rest() {
        var model = Self.model(3)
        var data = model.data
        data.failures = (0..<6).map { JobRow(id: "f\($0)", state: .failed, fields: ["error": "http_50\($0)"]) }
        (data.isPaused, data.pausedBy) = (true, "ann@films")
        model.apply(data)
        let screen = text(model)
        #expect(screen.contains("and 3 more") && screen.contains("http_502"), "\(screen)")
        #expect(!screen.contains("http_503") && screen.contains("PAUSED by ann@films"), "\(screen)")
    }

    @Test("an empty screen says why: no worker serves the queue, Redis is gone, nothing runs") func empty() {
        var model = TopModel(queue: "default")
        #expect(text(model).contains("reading"))
        var data = TopData()
        data.now = 1_795_000_000_000
        data.counts = [.queued: 5]
        model.apply(data)
        #expect(text(model).contains("no worker serves this queue"))
        #expect(text(model).contains("nothing is running; 5 are waiting"))
        model.errorMessage = "Redis does not answer"
        #expect(text(model).contains("Redis does not answer"))
        #expect(text(model, 20, 4).contains("20x4"))
    }

    @Test("the selection stays on the screen, and on its job when other rows change") func selection() {
        var model = Self.model(1000)
        let height = 10
        for _ in 0..<25 { _ = model.handle(.down, height: height) }
        let selected = model.selected
        #expect(model.visible(height: height).contains(selected ?? ""))
        var data = model.data
        data.rows = data.rows.filter { $0.id != "job-999" }
        model.apply(data)
        #expect(model.selected == selected)
        _ = model.handle(.end, height: height)
        #expect(model.selected == "job-0" && model.visible(height: height).last == "job-0")
        data.rows = data.rows.filter { $0.id != "job-0" }
        model.apply(data)
        #expect(model.selected == "job-1")
    }

    @Test("no colour is sent if none is wanted") func colour() {
        let row = ScreenRow("bad", .bad)
        #expect(row.encoded(isColored: true).contains("31"))
        #expect(!row.encoded(isColored: false).contains("31"))
    }

    @Test("no screen shows zeros before Redis has answered") func unread() {
        for (width, height) in [(80, 24), (200, 60)] {
            let model = TopModel(queue: "default")
            let rows = TopLayout(model: model, width: width, height: height, isUnicode: true).rows.map(\.text)
            let screen = rows.joined(separator: "\n")
            #expect(screen.contains("reading") && !screen.contains("none") && !screen.contains("nobody"))
            #expect(rows.prefix(4).allSatisfy { !$0.contains("0") }, "\(rows.prefix(4))")
        }
    }
}
