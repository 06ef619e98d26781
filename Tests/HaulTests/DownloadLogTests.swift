import Foundation
import HaulContract
import HaulTestSupport
import Testing

@testable import HaulDirect
@testable import HaulTerminal
@testable import haul

/// The records that `haul get` keeps of its downloads.
@Suite struct DownloadLogTests {
    private let place = TemporaryDirectory()
    private let item: GetItem

    init() throws {
        item = try Self.item("http://127.0.0.1/a")
    }

    private func record(run: String) -> GetRecord { GetRecord(item, run: run, completed: nil) }
    private let name = "journal"
    private var files: [String] { place.names.sorted() }

    @Test("the last record counts, in this run and in the next one") func last() async throws {
        let downloadLog = try DownloadLog(in: place.path)
        for run in ["one", "two", "three"] { await downloadLog.write(record(run: run), isDurable: run == "two") }
        #expect(await downloadLog.read(item.key)?.run == "three")
        #expect(try await DownloadLog(in: place.path).unended().map(\.run) == ["three"])
        await downloadLog.remove(item.key)
        #expect(await downloadLog.read(item.key) == nil)
        #expect(try await DownloadLog(in: place.path).unended().isEmpty)
    }

    @Test("a log whose locks cannot be opened is refused, and no download waits for a lock that no process holds")
    func unopened() throws {
        mkdir(place.file("lock"), 0o700)
        #expect(throws: ExitStatus.self) { try DownloadLog(in: place.path) }
    }

    @Test("two concurrent runs see each other's records") func shared() async throws {
        let (one, other) = (try DownloadLog(in: place.path), try DownloadLog(in: place.path))
        #expect(await other.read(item.key) == nil)
        for run in 0..<20 {
            let (writer, reader) = run % 2 == 0 ? (one, other) : (other, one)
            await writer.write(record(run: "\(run)"), isDurable: false)
            #expect(await reader.claim(item.key)?.record?.run == "\(run)")
        }
        await one.remove(item.key)
        #expect(await other.read(item.key) == nil)
    }

    @Test("a lock ends with its last reference, although a child process shares its descriptor")
    func inherited() async throws {
        let downloadLog = try DownloadLog(in: place.path)
        let path = place.file("lock")
        var held: [Int32] = []
        do {
            let lock = try #require(await downloadLog.lock(item.key))
            // Between fork and exec a child has the same open file under another descriptor. dup has the same effect.
            held = Self.descriptors(of: path).map { dup($0) }
            #expect(held.count == 1)
            #expect(await downloadLog.lock(item.key) == nil)
            withExtendedLifetime(lock) {}
        }
        defer { held.forEach { close($0) } }
        // The thread that made the lock may hold it a little longer.
        try await eventually("the lock to be free") { await downloadLog.lock(item.key) != nil }
    }

    private static func descriptors(of path: String) -> [Int32] {
        let all = "/proc/self/fd"
        return ((try? FileManager.default.contentsOfDirectory(atPath: all)) ?? []).filter {
            (try? FileManager.default.destinationOfSymbolicLink(atPath: "\(all)/\($0)")) == path
        }.compactMap { Int32($0) }
    }

    @Test("a truncated record is ignored, and the records before and after it are intact")
    func torn() async throws {
        await (try DownloadLog(in: place.path)).write(record(run: "one"), isDurable: false)
        let whole = try #require(place.contents(name))
        var second = record(run: "two")
        second.resume = ResumePoint(
            generation: "g", store: "s", file: "a", entity: Entity(), source: "u", offsets: ByteIntervals([0..<5]))
        second.completed = CompletedFile(
            file: "a", bytes: 1, store: "s", inode: 1, modified: 1, entity: Entity(), source: "u", checksum: nil,
            validated: 1)
        await (try DownloadLog(in: place.path)).write(second, isDurable: false)
        let both = try #require(place.contents(name))
        for length in whole.count..<both.count {
            try Data(both[..<length]).write(to: URL(fileURLWithPath: place.file(name)))
            let downloadLog = try DownloadLog(in: place.path)
            #expect(await downloadLog.read(item.key)?.run == "one", "\(length) of \(both.count) bytes")
            await downloadLog.write(record(run: "three"), isDurable: false)
            #expect(await downloadLog.read(item.key)?.run == "three")
            #expect(try await DownloadLog(in: place.path).unended().map(\.run) == ["three"])
        }
    }

    @Test("the records of a long download take little space, and leave no other file") func bounded() async throws {
        let maxBytes = 16 << 10
        let downloadLog = try DownloadLog(in: place.path, maxBytes: maxBytes)
        for run in 0..<1000 { await downloadLog.write(record(run: "\(run)"), isDurable: false) }
        #expect(await downloadLog.read(item.key)?.run == "999")
        #expect(try #require(place.contents(name)).count < 3 * maxBytes)
        #expect(files == ["journal", "journal.lock", "lock"])
    }

    @Test("the file is not compacted while another run has it open, and no record is lost") func busy() async throws {
        let maxBytes = 4 << 10
        let downloadLog = try DownloadLog(in: place.path, maxBytes: maxBytes)
        do {
            let other = try DownloadLog(in: place.path, maxBytes: maxBytes)
            await other.write(record(run: "other's"), isDurable: false)
            for run in 0..<200 { await downloadLog.write(try another(run: "\(run)"), isDurable: false) }
            #expect(try #require(place.contents(name)).count > 5 * maxBytes)
            await other.write(record(run: "other's last"), isDurable: false)
        }
        for run in 200..<300 { await downloadLog.write(try another(run: "\(run)"), isDurable: false) }
        #expect(try #require(place.contents(name)).count < 3 * maxBytes)
        #expect(try await Set(DownloadLog(in: place.path).unended().map(\.run)) == ["other's last", "299"])
    }

    @Test("the record of a finished download is kept for a month") func old() async throws {
        for (name, age) in [("new", Int64(29)), ("old", 31)] {
            var record = GetRecord(try Self.item("http://127.0.0.1/\(name)"), run: name, completed: nil)
            record.isOpen = false
            record.completed = CompletedFile(
                file: name, bytes: 1, store: "s", inode: 1, modified: 1, entity: Entity(), source: "u", checksum: nil,
                validated: UnixTime.milliseconds - age * 86_400_000)
            for _ in 0..<3 { await (try DownloadLog(in: place.path)).write(record, isDurable: false) }
        }
        // A journal forgets records only if no other has the file open. The thread of an earlier one may hold it a
        // moment longer.
        try await eventually("the old record to be forgotten") {
            await (try DownloadLog(in: place.path, maxBytes: 1)).read(try Self.item("http://127.0.0.1/old").key) == nil
        }
        #expect(try await DownloadLog(in: place.path).read(Self.item("http://127.0.0.1/new").key)?.run == "new")
    }

    @Test("records of versions with one file per record are taken over") func takenOver() async throws {
        let old =
            #"{"v":1,"key":"\#(item.key)","root":"/r","run":"old","job":{"url":"http://127.0.0.1/a"},"open":true}"#
        try Data((old + "\n{\"v\":1,\"ke").utf8).write(to: URL(fileURLWithPath: place.file(item.key + ".json")))
        let downloadLog = try DownloadLog(in: place.path)
        #expect(await downloadLog.unended().map(\.run) == ["old"])
        #expect(files == ["journal", "journal.lock", "lock"])
        #expect(try await DownloadLog(in: place.path).read(item.key)?.item?.urls == ["http://127.0.0.1/a"])
    }

    @Test("many concurrent records are written by few writes") func together() async throws {
        let downloadLog = try DownloadLog(in: place.path)
        let items = try (0..<200).map { try Self.item("http://127.0.0.1/\($0)") }
        await withTaskGroup(of: Void.self) { group in
            for item in items {
                group.addTask {
                    await downloadLog.write(GetRecord(item, run: "r", completed: nil), isDurable: false)
                }
            }
        }
        #expect(await downloadLog.unended().count == items.count)
        // Each write begins with an empty line, and each record ends with a newline.
        let lines = String(decoding: try #require(place.contents(name)), as: UTF8.self)
        let writes = lines.split(separator: "\n", omittingEmptySubsequences: false).filter(\.isEmpty).count - 1
        #expect(writes < items.count)
    }

    private func another(run: String) throws -> GetRecord {
        GetRecord(try Self.item("http://127.0.0.1/b"), run: run, completed: nil)
    }

    private static func item(_ url: String) throws -> GetItem {
        GetItem(
            job: try Job(json: JSON(Array("{\"url\":\"\(url)\"}".utf8))), root: "/r", members: [("url", "\"\(url)\"")])
    }
}
