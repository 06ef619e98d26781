import Foundation
import HaulBus
import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

@testable import HaulWorker

@Suite("Workers that let no job overwrite", .timeLimit(.minutes(1)))
struct NoOverwriteTests {
    @Test("--no-overwrite makes if_exists overwrite fail, of a small and of a large file, and says why")
    func forbidden() async throws {
        let fleet = try await Fleet()
        let foreign = Array("another owner's".utf8)
        for size in [1000, 5_000_000] {
            let origin = try OriginServer { OriginReply.file(FileBytes(seed: 1, count: Int64(size)), to: $0) }
            try fleet.place("f\(size)", foreign)
            try await fleet.withWorker("w", { $0.forbidsOverwrite = true }) {
                let overwrite = #","path":"f\#(size)","if_exists":"overwrite""#
                let record = try await fleet.download("o\(size)", origin.url("/"), overwrite)
                #expect(record.state == .failed && record["error"] == "file_exists" && record["retryable"] == "0")
                #expect(record["message"]?.contains("(--no-overwrite)") == true, "\(record["message"] ?? "")")
                let absent = try await fleet.download("a\(size)", origin.url("/"), #","path":"f\#(size)""#)
                #expect(absent["error"] == "file_exists" && absent["message"]?.contains("overwrite or rename") == true)
                let named = try await fleet.download(
                    "n\(size)", origin.url("/"), overwrite.replacing("f\(size)", with: "n\(size)"))
                #expect(named.state == .completed && named["file"] == "n\(size)")
            }
            #expect(try Array(Data(contentsOf: URL(fileURLWithPath: fleet.root.file("f\(size)")))) == foreign)
        }
        // Without the option the same job replaces the file.
        let origin = try OriginServer { OriginReply.file(FileBytes(seed: 2, count: 10), to: $0) }
        try await fleet.withWorker("other") {
            let record = try await fleet.download(
                "replaces", origin.url("/"), #","path":"f1000","if_exists":"overwrite""#)
            #expect(record.state == .completed && record["file"] == "f1000" && record["received"] == "10")
        }
    }

    @Test("a default of the queue that overwrites is refused as well, and a job's own file is still renewed")
    func own() async throws {
        let fleet = try await Fleet()
        let version = Shared(1)
        let origin = try OriginServer { request in
            let file = FileBytes(seed: UInt64(version.value), count: Int64(1000 + version.value))
            return OriginReply.file(file, etag: "\"v\(version.value)\"", to: request)
        }
        try fleet.place("foreign", [1])
        try await fleet.queue.redis.send(Command("HSET", fleet.queue.keys.defaults, "if_exists", #""overwrite""#))
        try await fleet.withWorker("w", { $0.forbidsOverwrite = true }) {
            let refused = try await fleet.download("refused", origin.url("/"), #","path":"foreign""#)
            #expect(refused["error"] == "file_exists")
            for size in [1001, 1002] {
                try await fleet.push(#"{"url":"\#(origin.url("/"))","id":"own","path":"own"}"#)
                try await eventually("the file to have \(size) bytes") {
                    let record = try await fleet.queue.job("own")
                    return record?.state == .completed && record?["received"] == "\(size)"
                }
                version.change { $0 += 1 }
            }
        }
    }
}

extension Fleet {
    func download(_ id: String, _ url: String, _ more: String) async throws -> JobRecord {
        try await push(#"{"url":"\#(url)","id":"\#(id)"\#(more)}"#)
        return try await end(id)
    }
}
