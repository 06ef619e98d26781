import Foundation
import HaulBus
import HaulContract
import HaulRedis
import HaulTestSupport
import Synchronization
import Testing

@testable import HaulWorker

@Suite("The directory that uploads may read", .timeLimit(.minutes(2)))
struct UploadFromTests {
    private let bytes = FileBytes(seed: 5, count: 3_000_000).all

    @Test("without --upload-from an upload fails for good, says what to set, and sends nothing")
    func none() async throws {
        let origin = try OriginServer { _ in OriginReply(201) }
        let fleet = try await Fleet()
        try fleet.place("f", bytes)
        try await fleet.withWorker("w", { $0.uploadFrom = nil }) {
            let tus = #""files":[{"file":"f"}]"#
            for (id, more) in [("one", #""file":"f""#), ("each", tus + #","each":true"#), ("form", tus)] {
                let record = try await fleet.upload(id, origin.url("/x"), more)
                #expect(record.state == .failed && record["error"] == "path_forbidden" && record["retryable"] == "0")
                #expect(record["message"]?.contains("set --upload-from (HAUL_UPLOAD_FROM)") == true)
            }
        }
        #expect(origin.requests.isEmpty)
    }

    @Test("uploads read files beneath --upload-from alone, and no link leads them out of it")
    func beneath() async throws {
        let origin = try OriginServer { OriginReply(body: $0.body.bytes) }
        let fleet = try await Fleet()
        let from = TemporaryDirectory()
        try fleet.place("secret", Array("of the root".utf8))
        try FileManager.default.createDirectory(atPath: from.file("a"), withIntermediateDirectories: true)
        try Data("sent".utf8).write(to: URL(fileURLWithPath: from.file("a/f")))
        for (link, target) in [
            ("out", fleet.root.file("secret")), ("up", "../\(fleet.root.path)/secret"), ("proc", "/proc/self/root"),
            ("near", "a/f"),
        ] {
            try FileManager.default.createSymbolicLink(atPath: from.file(link), withDestinationPath: target)
        }
        try await fleet.withWorker("w", { $0.uploadFrom = from.path }) {
            for (file, body) in [("a/f", "sent"), ("near", "sent")] {
                let record = try await fleet.upload(
                    file.replacing("/", with: "."), origin.url("/x"), #""file":"\#(file)""#)
                #expect(record.state == .completed && record["body"] == body, "\(record["message"] ?? "")")
            }
            for (file, code) in [
                ("secret", "source_missing"), ("out", "path_forbidden"), ("up", "path_forbidden"),
                ("proc/etc/passwd", "path_forbidden"), ("a", "bad_job"),
            ] {
                let record = try await fleet.upload(
                    "not-\(file.replacing("/", with: "."))", origin.url("/x"), #""file":"\#(file)""#)
                #expect(record.state == .failed && record["error"] == code, "\(file): \(record["message"] ?? "")")
            }
        }
        #expect(origin.requests.count == 2)
    }

    @Test("a worker does not start with an --upload-from that it cannot read") func unreadable() async throws {
        let fleet = try await Fleet()
        for wrong in ["/no/such/directory", "/etc/passwd", "s3://films/in"] {
            #expect(throws: Failure.self) { _ = try fleet.worker("w") { $0.uploadFrom = wrong } }
        }
    }

    @Test("an upload by tus waits for the option that was taken away, and then continues where the server is")
    func restored() async throws {
        let (server, fleet) = (TusScript(), try await Fleet())
        let origin = try await half(server, fleet)
        try await fleet.withWorker("without", { $0.uploadFrom = nil }) {
            try await fleet.queue.request(.running, of: ["t"])
            let record = try await fleet.end("t")
            #expect(record.state == .failed && record["error"] == "path_forbidden")
        }
        #expect(server.uploads == 1 && server.terminated.isEmpty)
        try await fleet.withWorker("with") {
            try await fleet.queue.request(.running, of: ["t"])
            try await fleet.wait("t", for: .completed)
        }
        #expect(server.finished == [bytes] && server.uploads == 1)
        #expect(origin.requests.filter { $0.method == "POST" }.count == 1)
    }

    @Test("an upload by tus does not continue with the file of another directory") func exchanged() async throws {
        let (server, fleet, other) = (TusScript(), try await Fleet(), TemporaryDirectory())
        let origin = try await half(server, fleet)
        let altered = Array(bytes.reversed())
        try Data(altered).write(to: URL(fileURLWithPath: other.file("f")))
        try await fleet.withWorker("other", { $0.uploadFrom = other.path }) {
            try await fleet.queue.request(.running, of: ["t"])
            let record = try await fleet.end("t")
            #expect(record.state == .failed && record["error"] == "source_changed")
            #expect(server.terminated.count == 1)
            #expect(try await fleet.upload("t", origin.url("/files"), Self.tus).state == .completed)
        }
        #expect(server.finished == [altered])
    }

    private static let tus = #""file":"f","protocol":"tus""#

    /// An origin whose server has the first part of the file `f` when the job `t` is paused.
    private func half(_ server: TusScript, _ fleet: Fleet) async throws -> OriginServer {
        try fleet.place("f", bytes)
        let origin = try OriginServer { server.answer($0) }
        try await fleet.withWorker("first") {
            try await fleet.push(
                #"{"kind":"upload","id":"t","url":"\#(origin.url("/files"))","limit_rate":500000,\#(Self.tus)}"#)
            try await eventually("progress") {
                let job = try await fleet.queue.job("t")
                return job?.integer("received") ?? 0 > 400_000 && job?["store_state"] != nil
            }
            try await fleet.queue.request(.paused, of: ["t"])
            try await fleet.wait("t", for: .paused)
        }
        return origin
    }
}
