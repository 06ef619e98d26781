import HaulBus
import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

@testable import HaulWorker

@Suite("Next steps of jobs on real workers", .timeLimit(.minutes(2)))
struct NextStepTests {
    private static let bytes = FileBytes(seed: 17, count: 3000)

    private static func origin() throws -> OriginServer {
        try OriginServer { request in
            switch request.path {
            case "/film": .file(bytes, to: request)
            case "/missing": OriginReply(404)
            default: OriginReply(body: Array("ok".utf8))
            }
        }
    }

    @Test("a download is followed by a request that has its results, and that by another one") func followed()
        async throws
    {
        let origin = try Self.origin()
        let fleet = try await Fleet()
        try await fleet.withWorker("w") {
            let last =
                #"{"kind":"request","id":"last","method":"PUT","url":"\#(origin.url("/last"))","body":"${id} ${bytes}"}"#
            let next =
                #"{"kind":"request","id":"next-${id}","url":"\#(origin.url("/next"))","json":{"f":"${file}","n":"${bytes}","c":"${checksum}"},"then":\#(last)}"#
            try await fleet.push(
                #"{"id":"film","url":"\#(origin.url("/film"))","path":"films/","checksum":"sha256:\#(Self.bytes.sha256)","then":\#(next),"else":{"url":"\#(origin.url("/never"))"}}"#
            )
            try await fleet.wait("last", for: .completed)
        }
        let bodies = origin.requests.map { String(decoding: $0.body.bytes, as: UTF8.self) }
        #expect(origin.requests.map(\.path) == ["/film", "/next", "/last"])
        #expect(bodies[1] == #"{"f":"films/film","n":"3000","c":"sha256:\#(Self.bytes.sha256)"}"#)
        #expect(bodies[2] == "next-film 2")
        #expect(try await fleet.queue.job("film")?["steps"] == "next-film")
    }

    @Test("a failure is followed by else, and so is a deadline that passes while no worker has the job")
    func failed() async throws {
        let origin = try Self.origin()
        let fleet = try await Fleet()
        try await fleet.withWorker("w") {
            let otherwise =
                #""else":{"kind":"request","id":"e-${id}","url":"\#(origin.url("/else"))","query":{"e":"${error}"}}"#
            try await fleet.push(#"{"id":"a","url":"\#(origin.url("/missing"))",\#(otherwise)}"#)
            try await fleet.push(#"{"id":"b","url":"\#(origin.url("/film"))","delay":60,"deadline":0.2,\#(otherwise)}"#)
            try await fleet.wait("e-a", for: .completed)
            try await fleet.wait("e-b", for: .completed)
        }
        let paths = Set(origin.requests.map(\.path))
        #expect(paths == ["/missing", "/else?e=http_404", "/else?e=deadline"])
    }

    @Test("a job whose steps are not valid jobs is not done, and says why") func refused() async throws {
        let origin = try Self.origin()
        let fleet = try await Fleet()
        try await fleet.withWorker("w") {
            try await fleet.push(#"{"id":"a","url":"\#(origin.url("/film"))","then":{"url":"http://h/${fiel}"}}"#)
            try await fleet.wait("a", for: .failed)
        }
        #expect(try await fleet.queue.job("a")?["message"]?.contains("then: url: has ${fiel}") == true)
        #expect(origin.requests.isEmpty)
    }
}
