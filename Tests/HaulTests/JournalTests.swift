import Foundation
import HaulContract
import HaulTestSupport
import Testing

@testable import haul

/// What `haul get` remembers of its downloads.
@Suite struct JournalTests {
    private let place = TemporaryDirectory()
    private let item: GetItem

    init() throws {
        let text = #"{"url":"http://127.0.0.1/a"}"#
        item = GetItem(
            job: try Job(json: JSON(Array(text.utf8))), root: "/r", members: [("url", #""http://127.0.0.1/a""#)])
    }

    private func record(run: String) -> GetRecord { GetRecord(item, run: run, completed: nil) }
    private var name: String { item.key + ".json" }

    @Test("the last record counts, in this run and in the next one") func last() async throws {
        let journal = try Journal(in: place.path)
        for run in ["one", "two", "three"] { await journal.write(record(run: run), isDurable: run == "two") }
        #expect(await journal.read(item.key)?.run == "three")
        #expect(try await Journal(in: place.path).unended().map(\.run) == ["three"])
        await journal.remove(item.key)
        #expect(await journal.read(item.key) == nil)
    }

    @Test("a record that was cut off counts for nothing, and spoils neither the one before it nor the next one")
    func torn() async throws {
        let journal = try Journal(in: place.path)
        await journal.write(record(run: "one"), isDurable: false)
        let whole = try #require(place.contents(name))
        await journal.write(record(run: "two"), isDurable: false)
        let both = try #require(place.contents(name))
        for length in whole.count..<both.count {
            try Data(both[..<length]).write(to: URL(fileURLWithPath: place.file(name)))
            #expect(await journal.read(item.key)?.run == "one", "\(length) of \(both.count) bytes")
        }
        await journal.write(record(run: "three"), isDurable: false)
        #expect(await journal.read(item.key)?.run == "three")
    }

    @Test("the records of a long download take little room, and no second file stays") func bounded() async throws {
        let journal = try Journal(in: place.path)
        for run in 0..<2000 { await journal.write(record(run: "\(run)"), isDurable: false) }
        #expect(await journal.read(item.key)?.run == "1999")
        #expect(try #require(place.contents(name)).count < 80 << 10)
        #expect(place.names == [name])
    }
}
