import HaulBus
import HaulContract
import HaulTestSupport
import Testing

@testable import HaulTerminal
@testable import haul

/// The keys of `haul top`, and what they do.
@Suite struct TopKeysTests {
    private func press(_ text: String, _ model: inout TopModel) -> [TopAction] {
        text.compactMap { model.handle($0 == "\n" ? .enter : .character($0), height: 10) }
    }

    @Test("bytes become keys, also when they arrive in pieces") func decoder() {
        var keys = KeyDecoder()
        #expect(
            keys.feed(Array("a\u{e9}\u{1B}[A\u{1B}[5~\u{1B}OB\r".utf8)) == [
                .character("a"), .character("\u{e9}"), .up, .pageUp, .down, .enter,
            ])
        #expect(keys.feed([27]) == [] && keys.isWaiting)
        #expect(keys.flush() == [.escape] && !keys.isWaiting)
        #expect(keys.feed([27]) == [] && keys.feed(Array("[6".utf8)) == [] && keys.feed(Array("~".utf8)) == [.pageDown])
        #expect(keys.feed([0xE6, 0xBC]) == [] && keys.feed([0xA2]) == [.character("\u{6f22}")])
        #expect(keys.feed([3, 26, 127, 9, 0xFF, 65]) == [.control("c"), .control("z"), .backspace, .tab])
        // Only the invalid UTF-8 itself is dropped.
        #expect(keys.feed([66, 67, 68]).last == .character("D"))
    }

    @Test("Redis gets no request before the answer is yes") func question() {
        var model = TopLayoutTests.model(20)
        #expect(press("c", &model) == [])
        guard case .question(let question) = model.mode else { return #expect(Bool(false), "no question") }
        #expect(question.text == "Cancel job job-19?")
        #expect(press("n", &model) == [] && model.mode == .list)
        #expect(press("cy", &model) == [.request(.cancelled, ["job-19"], "cancel of job job-19 requested")])
        _ = press("a", &model)
        #expect(model.marked.count == 20)
        guard case .request(.paused, let ids, _)? = press("py", &model).first else {
            return #expect(Bool(false), "no request")
        }
        #expect(ids.count == 20 && model.marked.isEmpty)
        #expect(press("Py", &model) == [.pauseQueue(true)])
    }

    @Test("a filter narrows the list while it is typed, and marks go with the filter") func filter() {
        var model = TopLayoutTests.model(1000)
        _ = press("/host3", &model)
        #expect(model.rows.count == 143 && model.mode == .filtering)
        _ = press("\n", &model)
        #expect(model.mode == .list && model.filter == "host3")
        _ = press("a", &model)
        #expect(model.marked.count == 143)
        _ = model.handle(.escape, height: 10)
        #expect(model.filter.isEmpty && model.marked.isEmpty && model.rows.count == 1000)
        // In a filter, letters that are keys elsewhere are text.
        _ = press("/qc", &model)
        #expect(model.filter == "qc" && model.rows.isEmpty)
    }

    @Test("jobs are sorted by the chosen column, and the order can be reversed") func order() {
        var model = TopLayoutTests.model(20)
        #expect(model.rows.first?.id == "job-19")
        while model.order != .age { _ = press("s", &model) }
        #expect(model.rows.first?.id == "job-19")
        _ = press("R", &model)
        #expect(model.rows.first?.id == "job-0")
    }

    @Test("the first row stays selected until a job is chosen, which then stays selected wherever it moves")
    func selection() {
        var model = TopLayoutTests.model(20)
        func turn() {
            var data = model.data
            data.rows = data.rows.map { row in
                var row = row
                row.speed = 1_000_000 - row.speed
                return row
            }
            model.apply(data)
        }
        #expect(model.selected == "job-19")
        turn()
        #expect(model.selected == "job-0" && model.rows.first?.id == "job-0" && model.top == 0)
        _ = press("j", &model)
        let chosen = model.selected
        #expect(chosen == "job-1")
        turn()
        #expect(model.selected == chosen && model.selectedIndex == 18)
        _ = press("g", &model)
        turn()
        #expect(model.selected == "job-0")
        _ = press("\n", &model)
        turn()
        #expect(model.selected == "job-0" && model.detail?.id == "job-0")
    }

    @Test("a job is opened and closed, and keeps its events, with progress in one line") func detail() throws {
        var model = TopLayoutTests.model(20)
        #expect(press("\n", &model) == [.open("job-19")])
        for text in [
            #"{"event":"started","id":"job-19","at":1795000000000}"#,
            #"{"event":"progress","id":"job-19","at":1795000001000,"received":1000}"#,
            #"{"event":"progress","id":"job-19","at":1795000002000,"received":2000}"#,
        ] {
            model.detail?.record(try #require(Event(text.utf8)))
        }
        #expect(model.detail?.events.count == 2)
        #expect(press("p", &model) == [])
        #expect(press("y", &model) == [.request(.paused, ["job-19"], "pause of job job-19 requested")])
        #expect(model.mode == .detail)
        #expect(press("q", &model) == [.close] && model.mode == .list)
        #expect(press("q", &model) == [.quit])
    }

    @Test("tab cycles through the states, and no rows of another state are shown meanwhile") func views() {
        var model = TopLayoutTests.model(20)
        #expect(model.handle(.tab, height: 10) == .read && model.view == .paused && model.rows.isEmpty)
        #expect(press("3", &model) == [.read] && model.rows.count == 20)
    }
}
