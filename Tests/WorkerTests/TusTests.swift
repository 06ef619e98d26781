import HaulBus
import HaulContract
import HaulHTTP
import HaulRedis
import HaulTestSupport
import Synchronization
import Testing

@testable import HaulActivities
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
                #expect(record["store_state"] == nil && record["generation"] == nil)
            }
            #expect(server.finished == [bytes])
            #expect(origin.requests.allSatisfy { $0.headers["tus-resumable"] == "1.0.0" })
            #expect(origin.requests.allSatisfy { $0.headers["authorization"] == "Bearer x" })
            #expect(
                origin.requests[1].headers["upload-metadata"]
                    == "filename Zg==,filetype YXBwbGljYXRpb24vb2N0ZXQtc3RyZWFt")
            let patches = origin.requests.filter { $0.method == "PATCH" }
            #expect(patches.count == (count == 0 ? 0 : 1))
            #expect(patches.allSatisfy { ($0.headers["upload-checksum"] != nil) == extensions.contains("checksum") })
            #expect(patches.allSatisfy { $0.headers["content-type"] == "application/offset+octet-stream" })
        }
    }

    @Test(
        "a server that gives wrong answers has the right file in the end",
        arguments: [
            "409", "413", "423", "460", "404", "410", "head-400", "head-404", "head-423", "backwards", "ahead",
            "length",
        ])
    func lies(_ lie: String) async throws {
        var lies = TusScript.Lies()
        switch lie {
        case "head-400": (lies.patch, lies.head) = ([409], [400])
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

    @Test(
        "a job's own Upload-Metadata replaces the file's name and type, and is sent only to create an upload"
    )
    func metadata() async throws {
        let server = TusScript(
            lies: {
                var lies = TusScript.Lies(); lies.patch = [409]; return lies
            }())
        let origin = try origin(server)
        let fleet = try await fleet()
        try await fleet.withWorker("w") {
            let record = try await fleet.upload(
                "t", origin.url("/files"),
                #""file":"f","protocol":"tus","headers":{"Upload-Metadata":"filename eA==,token dA=="}"#)
            #expect(record.state == .completed, "\(record["message"] ?? "")")
        }
        for request in origin.requests {
            let expected = request.method == "POST" ? "filename eA==,token dA==" : nil
            #expect(request.headers["upload-metadata"] == expected, "\(request.method)")
        }
        #expect(Set(origin.requests.map(\.method)) == ["OPTIONS", "POST", "PATCH", "HEAD"])
    }

    @Test("a server that ends the connection at OPTIONS gets the file")
    func options() async throws {
        let server = TusScript()
        let origin = try OriginServer { request in
            var reply = server.answer(request)
            if request.method == "OPTIONS" {
                (reply.body, reply.framing, reply.cut, reply.end) = (.bytes([1, 2]), .length, 0, .reset)
            }
            return reply
        }
        let fleet = try await fleet()
        try await fleet.withWorker("w") {
            let record = try await fleet.upload("t", origin.url("/files"), #""file":"f","protocol":"tus","retries":0"#)
            #expect(record.state == .completed, "\(record["message"] ?? "")")
        }
        #expect(server.finished == [bytes])
    }

    @Test("requests become smaller at a server that keeps nothing of a broken one, until they arrive")
    func wholeRequests() async throws {
        let server = TusScript()
        let handler: @Sendable (OriginRequest) -> OriginReply = {
            $0.method == "PATCH" && !$0.body.isWhole ? OriginReply(500) : server.answer($0)
        }
        let intake: @Sendable (OriginRequest) -> OriginIntake = { request in
            var intake = OriginIntake()
            let length = request.headers["content-length"].flatMap { Int($0) } ?? 0
            // The connection breaks after 800 KB.
            if request.method == "PATCH", length > 800_000 { (intake.cut, intake.isReset) = (800_000, true) }
            return intake
        }
        let origin = try OriginServer(intake: intake, handler)
        let fleet = try await fleet()
        try await fleet.withWorker("w") {
            let record = try await fleet.upload("t", origin.url("/files"), #""file":"f","protocol":"tus","retries":12"#)
            #expect(record.state == .completed, "\(record["error"] ?? "") \(record["message"] ?? "")")
        }
        #expect(server.finished == [bytes])
    }

    @Test("what an upload has learned about sizes is kept for its next run")
    func sizes() throws {
        var upload = TusUpload(url: "http://h/1", version: "v", generation: "g", server: TusServer())
        upload.unanswered = .init(offset: 0, sent: 5 << 20)
        let plan = UploadPlan(
            try Job(json: JSON(#"{"kind":"upload","url":"http://h/","file":"f","protocol":"tus"}"#)))
        func reread(_ upload: TusUpload) throws -> TusUpload {
            let point = ResumePoint(
                generation: "g", store: "s", file: "", entity: Entity(total: 9), source: MaskedURL.text(plan.url),
                storeState: upload.storeState(of: plan))
            return try #require(TusUpload(point, of: plan))
        }
        upload = try reread(upload)
        // Nothing of the request was kept: half of what was sent.
        upload.record(offset: 0)
        #expect(upload.chunkSize == 5 << 19)
        upload.record(offset: 5 << 19)
        #expect(upload.chunkSize == 5 << 20, "a success doubles it")
        upload.limit(to: 1 << 20)
        upload = try reread(upload)
        upload.record(offset: 10 << 20)
        #expect(upload.chunkSize == 1 << 20, "what a 413 has taught stays")
        // A server that keeps a part gets the same size again.
        upload.unanswered = .init(offset: 10 << 20, sent: 1 << 20)
        upload.record(offset: 10 << 20 | 1)
        #expect(upload.chunkSize == 1 << 20)
    }

    @Test("an upload into which another run has sent bytes is begun anew") func shared() async throws {
        let server = TusScript()
        let intake: @Sendable (OriginRequest) -> OriginIntake = { [bytes] request in
            var intake = OriginIntake()
            guard request.method == "PATCH", server.uploads == 1 else { return intake }
            _ = server.take(request.path, 0, Array(bytes.prefix(2_900_000)))
            intake.refusal = OriginReply(423)
            return intake
        }
        let origin = try origin(server, intake: intake)
        let fleet = try await fleet()
        try await fleet.withWorker("w") {
            let record = try await fleet.upload(
                "t", origin.url("/files"), #""file":"f","protocol":"tus","retries":0,"limit_rate":4000000"#)
            #expect(record.state == .completed, "\(record["error"] ?? "") \(record["message"] ?? "")")
        }
        #expect(server.uploads == 2 && server.finished == [bytes])
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

    @Test("a message about a server that creates uploads without a Location has no password and no query of the URL")
    func secrets() async throws {
        let origin = try OriginServer { OriginReply($0.method == "OPTIONS" ? 204 : 201) }
        let url = origin.url("/files?sig=hidden-query").replacing("http://", with: "http://me:hidden-password@")
        let fleet = try await fleet()
        try await fleet.withWorker("w") {
            let record = try await fleet.upload("t", url, #""file":"f","protocol":"tus""#)
            let message = record["message"] ?? ""
            #expect(record.state == .failed && !message.contains("hidden"), "\(message)")
            #expect(message.contains("without a Location: \(origin.url("/files"))?[masked] "), "\(message)")
        }
    }
}
