import HaulBus
import HaulContract
import HaulHTTP
import HaulRedis
import HaulTestSupport
import Synchronization
import Testing

@testable import HaulWorker

@Suite("Uploads by tus", .timeLimit(.minutes(2)))
struct TusTests {
    private static let file = FileBytes(seed: 3, count: 3_000_000).all
    private let bytes = TusTests.file

    private func fleet(_ file: [UInt8]? = nil) async throws -> Fleet {
        let fleet = try await Fleet()
        try fleet.place("f", file ?? bytes)
        return fleet
    }

    /// An origin that answers as `server` says, and keeps what came before a cut, as tus servers do.
    private func origin(
        _ server: TusScript, intake: @escaping @Sendable (OriginRequest) -> OriginIntake = { _ in OriginIntake() }
    )
        throws -> OriginServer
    {
        try OriginServer(intake: intake) { server.answer($0) }
    }

    @Test(
        "a file of any size is uploaded by tus, with checksums if the server supports them", arguments: [0, 3_000_000])
    func whole(_ count: Int) async throws {
        let bytes = Array(bytes.prefix(count))
        for extensions in ["creation,termination", "creation,checksum", ""] {
            let server = TusScript(extensions: extensions)
            let origin = try origin(server)
            let fleet = try await fleet(bytes)
            try await fleet.withWorker("w") {
                let record = try await fleet.upload(
                    "t", origin.url("/files"), #""file":"f","protocol":"tus","headers":{"Authorization":"Bearer x"}"#)
                #expect(record.state == .completed && record["received"] == "\(count)", "\(record["message"] ?? "")")
                // What a later run would continue with is removed.
                #expect(record["journal"] == nil && record["generation"] == nil)
            }
            #expect(server.finished == [bytes])
            #expect(origin.requests.allSatisfy { $0.headers["tus-resumable"] == "1.0.0" })
            #expect(origin.requests.allSatisfy { $0.headers["authorization"] == "Bearer x" })
            #expect(origin.requests[1].headers["upload-metadata"] == "filename Zg==")
            let patches = origin.requests.filter { $0.method == "PATCH" }
            #expect(patches.count == (count == 0 ? 0 : 1))
            #expect(patches.allSatisfy { ($0.headers["upload-checksum"] != nil) == extensions.contains("checksum") })
            #expect(patches.allSatisfy { $0.headers["content-type"] == "application/offset+octet-stream" })
        }
    }

    @Test(
        "a server that gives wrong answers has the right file in the end",
        arguments: [
            "409", "413", "423", "460", "404", "410", "head-404", "head-423", "backwards", "ahead", "length",
        ])
    func lies(_ lie: String) async throws {
        var lies = TusScript.Lies()
        switch lie {
        case "head-404": (lies.patch, lies.head) = ([409], [404])
        case "head-423": (lies.patch, lies.head) = ([409], [423, 423])
        case "backwards": (lies.patch, lies.backwards) = ([409, 409], [0, 0])
        case "ahead": lies.ahead = 1
        case "length": (lies.patch, lies.otherLength) = ([409], 1)
        default: lies.patch = [Int(lie)!]
        }
        let server = TusScript(lies: lies)
        let origin = try origin(server)
        let fleet = try await fleet()
        try await fleet.withWorker("w") {
            let record = try await fleet.upload("t", origin.url("/files"), #""file":"f","protocol":"tus""#)
            #expect(record.state == .completed, "\(record["error"] ?? "") \(record["message"] ?? "")")
            #expect(server.finished == [bytes])
        }
    }

    @Test("a server that gives wrong answers for ever makes the job fail", arguments: ["409", "404", "423", "413"])
    func forever(_ lie: String) async throws {
        var lies = TusScript.Lies()
        lies.patch = Array(repeating: Int(lie)!, count: 1000)
        let server = TusScript(maximum: lie == "413" ? 1000 : nil, lies: lies)
        let origin = try origin(server)
        let fleet = try await fleet()
        try await fleet.withWorker("w") {
            let record = try await fleet.upload("t", origin.url("/files"), #""file":"f","protocol":"tus","retries":0"#)
            let code = ["409": "http_409", "404": "bad_response", "423": "http_423", "413": "too_large"][lie]
            #expect(record.state == .failed && record["error"] == code, "\(record["message"] ?? "")")
            #expect(server.finished.isEmpty && origin.requests.count < 30)
        }
    }
}
