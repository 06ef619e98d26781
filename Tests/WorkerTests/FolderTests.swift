import Foundation
import HaulBus
import HaulContract
import HaulFileStore
import HaulRedis
import HaulStorage
import HaulTestSupport
import Testing

@testable import HaulWorker

@Suite("Folders of queues", .timeLimit(.minutes(2)))
struct FolderTests {
    private let bytes = FileBytes(seed: 6, count: 3_000_000)

    private func two(_ configuration: inout WorkerConfiguration) {
        configuration.queues = [
            ServedQueue(.default, folder: "films"), ServedQueue(QueueName("books")!, folder: "in/books"),
        ]
    }

    private func contents(_ fleet: Fleet, _ path: String) -> [UInt8]? {
        (try? Data(contentsOf: URL(fileURLWithPath: fleet.root.file(path)))).map(Array.init)
    }

    @Test("jobs of two queues with the same ids and paths keep their files apart, and no path or link joins them")
    func apart() async throws {
        let fleet = try await Fleet()
        let books = Queue(QueueName("books")!, redis: fleet.queue.redis)
        let origin = try OriginServer { request in
            request.method == "GET"
                ? OriginReply(body: Array("of \(request.path)".utf8)) : OriginReply(201, body: request.body.bytes)
        }
        let end = { (queue: Queue, id: String, element: String) async throws -> JobRecord in
            try await queue.redis.send(Command("LPUSH", queue.keys.jobs, element))
            try await eventually("\(id) to end") { try await queue.job(id)?.hasEnded ?? false }
            return try #require(try await queue.job(id))
        }
        try await fleet.withWorker("w", two) {
            for (queue, name) in [(fleet.queue, "films"), (books, "books")] {
                let record = try await end(
                    queue, "same", #"{"id":"same","path":"a/f","url":"\#(origin.url("/" + name))"}"#)
                #expect(record.state == .completed && record["file"] == "a/f", "\(record["message"] ?? "")")
            }
            #expect(contents(fleet, "films/a/f") == Array("of /films".utf8))
            #expect(contents(fleet, "in/books/a/f") == Array("of /books".utf8))
            try FileManager.default.createSymbolicLink(
                atPath: fleet.root.file("films/link"), withDestinationPath: "../in/books")
            for (id, element) in [
                ("upload", #""kind":"upload","file":"link/a/f""#), ("download", #""path":"link/a/g""#),
            ] {
                let record = try await end(
                    fleet.queue, id, #"{"id":"\#(id)","url":"\#(origin.url("/x"))",\#(element)}"#)
                #expect(
                    record.state == .failed && record["error"] == "path_forbidden", "\(id): \(record["error"] ?? "")")
            }
            let sent = try await end(
                books, "sent", #"{"kind":"upload","id":"sent","file":"a/f","url":"\#(origin.url("/x"))"}"#)
            #expect(sent.state == .completed && sent["body"] == "of /books", "\(sent["message"] ?? "")")
            // The file of the one queue is deleted, and that of the other one stays.
            try await fleet.queue.request(.deleted, of: ["same"])
            try await eventually("the file to be deleted") { contents(fleet, "films/a/f") == nil }
            #expect(contents(fleet, "in/books/a/f") != nil)
        }
        #expect(origin.requests.filter { $0.method != "GET" }.count == 1)
    }

    @Test("a worker with the same folder continues a partial file, and one with another folder starts again")
    func continued() async throws {
        let fleet = try await Fleet()
        let latch = Latch()
        let origin = try OriginServer { [bytes] request in
            var reply = OriginReply.file(bytes, to: request)
            if request.number == 1 { reply.hold = (after: 1_500_000, until: latch) }
            return reply
        }
        defer { latch.open() }
        try await fleet.withWorker("one", two) {
            try await fleet.push(#"{"url":"\#(origin.url("/"))","id":"j","path":"f","connections":1}"#)
            try await eventually("half of it") { try await fleet.queue.job("j")?.integer("received") ?? 0 >= 1_000_000 }
            try await fleet.queue.request(.paused, of: ["j"])
            try await fleet.wait("j", for: .paused)
        }
        let known = try #require(try await fleet.queue.job("j"))
        let offset = try #require(known.integer("received"))
        #expect(offset >= 1_000_000)
        // The same directory, named by the root instead of by a folder, is the same store.
        try await fleet.withWorker("two", { $0.root += "/films" }) {
            try await fleet.queue.request(.running, of: ["j"])
            try await fleet.wait("j", for: .completed)
        }
        #expect(contents(fleet, "films/f") == bytes.all)
        #expect(origin.requests.dropFirst().allSatisfy { ($0.headers["range"] ?? "").contains("bytes=") })
        let before = origin.requests.count
        try await fleet.withWorker("three", { $0.queues = [ServedQueue(.default, folder: "other")] }) {
            try await fleet.push(#"{"url":"\#(origin.url("/"))","id":"j","path":"f","connections":1}"#)
            try await eventually("the file in the other folder") { contents(fleet, "other/f") == bytes.all }
            try await fleet.wait("j", for: .completed)
        }
        #expect(origin.requests.dropFirst(before).contains { $0.headers["range"] == nil })
        #expect(contents(fleet, "films/f") == bytes.all)
    }

    @Test("a sweep of the root leaves the hidden files of a folder that is a store of its own") func swept()
        async throws
    {
        let root = TemporaryDirectory()
        let (whole, films) = (try FileStore(root: root.path), try FileStore(root: root.path, folder: "films"))
        #expect(whole.id != films.id)
        for folder in ["", "films/", "plain/"] {
            try FileManager.default.createDirectory(atPath: root.file(folder), withIntermediateDirectories: true)
            let key = String(repeating: "a", count: 40)
            let path = root.file(folder + ".haul-\(key)-\(String(repeating: "1", count: 32))")
            try Data("x".utf8).write(to: URL(fileURLWithPath: path))
        }
        let found = await whole.leftovers(olderThan: -1).map(\.path)
        #expect(found.count == 2 && !found.contains { $0.hasPrefix("films/") }, "\(found)")
        #expect(await films.leftovers(olderThan: -1).count == 1)
    }

    @Test("a folder that a link leads out of the root is refused, and so is one that is a file") func refused()
        async throws
    {
        let (fleet, elsewhere) = (try await Fleet(), TemporaryDirectory())
        try FileManager.default.createSymbolicLink(atPath: fleet.root.file("out"), withDestinationPath: elsewhere.path)
        try fleet.place("file", [1])
        for folder in ["out", "out/in", "file"] {
            let error = #expect(throws: Failure.self) {
                _ = try fleet.worker("w") { $0.queues = [ServedQueue(.default, folder: folder)] }
            }
            #expect(error?.message.contains("the folder \(folder) of the root") == true, "\(error?.message ?? "")")
        }
        #expect(try FileManager.default.contentsOfDirectory(atPath: elsewhere.path).isEmpty)
    }
}
