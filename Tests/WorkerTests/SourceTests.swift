import Foundation
import Glibc
import HaulBus
import HaulContract
import HaulHTTP
import HaulRedis
import HaulTestSupport
import Logging
import Testing

@testable import HaulObjectStore
@testable import HaulWorker

/// Downloads of objects, `s3://BUCKET/KEY`, from real servers.
@Suite(
    .disabled(if: ObjectServer.dialects.isEmpty, "no object store is installed: deploy/test.sh does that"),
    .timeLimit(.minutes(3)))
struct SourceTests {
    /// A bucket of its own for one test, and what its workers are given.
    private struct Films {
        /// No key of Redis and no line of a log may have these.
        static let secrets = ["testsecret", "testkey", "wrong-secret", "nobody-knows"]
        /// The credentials file of this process. All tests of the process share it.
        private static let profiles: TemporaryDirectory = {
            let directory = TemporaryDirectory()
            let text = """
                [films]
                aws_access_key_id = testkey
                aws_secret_access_key = testsecret
                [wrong]
                aws_access_key_id = testkey
                aws_secret_access_key = wrong-secret
                [unknown]
                aws_access_key_id = nobody-knows
                aws_secret_access_key = wrong-secret
                """
            _ = FileManager.default.createFile(atPath: directory.file("credentials"), contents: Data(text.utf8))
            setenv("AWS_SHARED_CREDENTIALS_FILE", directory.file("credentials"), 1)
            return directory
        }()

        /// Makes the profiles known to this process.
        static func prepare() { _ = profiles }

        let server: ObjectServer
        let name = "films-\(UInt32.random(in: 0...(.max)))"
        let client: BucketClient

        init(_ kind: ObjectServer.Kind, isVersioned: Bool = false) async throws {
            Self.prepare()
            server = try await .shared(kind)
            var configuration = TransferEngine.Configuration()
            configuration.policy = .unrestricted
            let engine = TransferEngine(configuration: configuration)
            let environment = server.environment
            client = BucketClient(
                try BucketAddress("s3://\(name)", endpoint: server.endpoint), engine: engine,
                credentials: CredentialsChain(
                    engine: engine,
                    locations: CredentialsLocation.all({ environment[$0] }, isReadable: { _ in false })))
            _ = try await client.send(StoreRequest("PUT", ""))
            guard isVersioned else { return }
            var request = StoreRequest("PUT", "")
            request.query = [("versioning", "")]
            request.carry(
                "<VersioningConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Status>Enabled</Status>"
                    + "</VersioningConfiguration>")
            _ = try await client.send(request)
        }

        func put(_ key: String, _ bytes: [UInt8]) async throws {
            try await client.put(key, RequestMemory(bytes), md5: Digest.md5(bytes))
        }

        func source(_ prefix: String = "", profile: String = "films") throws -> BucketSource {
            BucketSource(try BucketAddress("s3://\(name)\(prefix)", endpoint: server.endpoint), profile: profile)
        }

        func change(_ prefix: String = "", profile: String = "films") throws -> (inout WorkerConfiguration) -> Void {
            let source = try source(prefix, profile: profile)
            return { configuration in
                configuration.sources = [source]
                // The operator has chosen the endpoint, so that the addresses of jobs do not matter.
                configuration.addressPolicy = .restricted()
            }
        }

        /// Checks that Redis has none of the secrets, in any key.
        func expectNoSecret(in fleet: Fleet) async throws {
            for key in try await fleet.server.cli("KEYS", "*").split(separator: "\n") {
                let dump = try await fleet.queue.redis.send(Command("DUMP", String(key))).bytes ?? []
                let text = String(decoding: dump, as: UTF8.self)
                for secret in Self.secrets { #expect(!text.contains(secret), "\(secret) in \(key)") }
            }
        }
    }

    private static let old = FileBytes(seed: 21, count: 24 << 20)
    private static let new = FileBytes(seed: 22, count: 24 << 20)

    /// Pauses the job `film` of a fleet once it has a checkpoint between its first and its last bytes.
    private func fetchHalf(_ films: Films, _ fleet: Fleet, _ more: String = "") async throws {
        try await fleet.withWorker("one", films.change()) {
            try await fleet.push(
                #"{"url":"s3://\#(films.name)/a/film%201.bin\#(more)","id":"film","limit_rate":6000000,"connections":2}"#
            )
            try await eventually("a checkpoint", within: .seconds(30)) {
                try await fleet.queue.job("film")?.offsets.count ?? 0 >= 4 << 20
            }
            try await fleet.queue.request(.paused, of: ["film"])
            try await fleet.wait("film", for: .paused)
        }
        let count = try #require(try await fleet.queue.job("film")).offsets.count
        #expect((4 << 20..<24 << 20).contains(count))
    }

    private func finish(_ films: Films, _ fleet: Fleet) async throws -> JobRecord {
        try await fleet.withWorker("two", films.change()) {
            try await fleet.push(#"{"id":"film"}"#)
            try await fleet.wait("film", for: .completed)
        }
        try await films.expectNoSecret(in: fleet)
        return try #require(try await fleet.queue.job("film"))
    }

    @Test("an object is downloaded, and another worker continues it where it stopped", arguments: ObjectServer.dialects)
    func continued(_ kind: ObjectServer.Kind) async throws {
        let (films, fleet) = (try await Films(kind), try await Fleet())
        try await films.put("a/film 1.bin", Self.old.all)
        try await fetchHalf(films, fleet)
        let job = try await finish(films, fleet)
        #expect(job["file"] == "film 1.bin" && job["url"] == "s3://\(films.name)/a/film%201.bin")
        #expect(job["refetched"].flatMap { Int64($0) } ?? 0 < 8 << 20, "\(job.fields)")
        #expect(fleet.root.holds("film 1.bin", Self.old))
    }

    @Test(
        "an object that is replaced meanwhile is fetched again, if its bucket has no versions",
        arguments: ObjectServer.dialects)
    func replaced(_ kind: ObjectServer.Kind) async throws {
        let (films, fleet) = (try await Films(kind), try await Fleet())
        try await films.put("a/film 1.bin", Self.old.all)
        try await fetchHalf(films, fleet)
        try await films.put("a/film 1.bin", Self.new.all)
        _ = try await finish(films, fleet)
        #expect(fleet.root.holds("film 1.bin", Self.new))
    }

    /// The servers whose buckets may have versions.
    private static let versioned = ObjectServer.dialects.filter { $0 != .weed }

    /// MiniStack ignores the Range of a request for a version, so a file of it cannot be continued there.
    @Test(
        "all bytes are of the version that the first response named, even if it is replaced",
        arguments: versioned.filter { $0 != .mini })
    func pinned(_ kind: ObjectServer.Kind) async throws {
        let (films, fleet) = (try await Films(kind, isVersioned: true), try await Fleet())
        try await films.put("a/film 1.bin", Self.old.all)
        try await fetchHalf(films, fleet)
        let version = try #require(try await fleet.queue.job("film")?["final_url"])
        #expect(version.hasPrefix("s3://\(films.name)/a/film%201.bin?versionId="))
        try await films.put("a/film 1.bin", Self.new.all)
        _ = try await finish(films, fleet)
        #expect(fleet.root.holds("film 1.bin", Self.old))
        // A new push asks for the newest version, and one with a version for that one.
        try await fleet.withWorker("three", films.change()) {
            let url = "s3://\(films.name)/a/film%201.bin"
            try await fleet.push(#"{"url":"\#(url)","id":"newest","path":"newest"}"#)
            let query = version.drop { $0 != "?" }
            try await fleet.push(#"{"url":"\#(url)\#(query)","id":"older","path":"older"}"#)
            for id in ["newest", "older"] { try await fleet.wait(id, for: .completed) }
        }
        #expect(fleet.root.holds("newest", Self.new) && fleet.root.holds("older", Self.old))
    }

    @Test("a second push finds the object unchanged, or its new version", arguments: ObjectServer.dialects)
    func pushedAgain(_ kind: ObjectServer.Kind) async throws {
        let (films, fleet) = (
            try await Films(kind, isVersioned: Self.versioned.contains(kind)), try await Fleet()
        )
        let element = #"{"url":"s3://\#(films.name)/small","id":"small"}"#
        try await films.put("small", Array("one".utf8))
        try await fleet.withWorker("w", films.change()) {
            try await fleet.push(element)
            try await fleet.wait("small", for: .completed)
            try await fleet.push(element)
            try await eventually("an unchanged end") { try await fleet.queue.job("small")?["unchanged"] == "1" }
            try await films.put("small", Array("two".utf8))
            try await fleet.push(element)
            try await eventually("the new version") { fleet.root.contents("small") == Array("two".utf8) }
            try await fleet.wait("small", for: .completed)
        }
    }

    @Test(
        "a bucket's refusal ends the job with its reason, and no secret is in Redis or in the log",
        arguments: ObjectServer.dialects)
    func refused(_ kind: ObjectServer.Kind) async throws {
        let (films, fleet) = (try await Films(kind), try await Fleet())
        try await films.put("public/a", Array("a".utf8))
        try await films.put("private", Array("b".utf8))
        let logged = Shared<[String]>([])
        func outcome(_ path: String, _ more: String = "", prefix: String = "", profile: String = "films") async throws
            -> (code: String?, message: String?)
        {
            let worker = try fleet.worker("w", log: Warnings.log(to: logged)) { configuration in
                try? films.change(prefix, profile: profile)(&configuration)
            }
            let running = Task { try await worker.run() }
            let id = "j\(UInt32.random(in: 0...(.max)))"
            try await fleet.push(#"{"url":"s3://\#(path)","id":"\#(id)"\#(more)}"#)
            try await eventually("the end of \(path)", within: .seconds(30)) {
                try await fleet.state(id)?.isFinal == true
            }
            running.cancel()
            try await running.value
            let job = try await fleet.queue.job(id)
            return (job?["error"] ?? job?.state.rawValue, job?["message"])
        }
        #expect(try await outcome("\(films.name)/public/a", prefix: "/public").code == "completed")
        for path in ["\(films.name)/private", "\(films.name)/publicity"] {
            let outside = try await outcome(path, prefix: "/public")
            #expect(outside.code == "address_forbidden", "\(outside)")
        }
        for path in ["public/%2e%2e/private", "public/../private", "public/..%2F%CC%81/private"] {
            let above = try await outcome("\(films.name)/\(path)", prefix: "/public")
            #expect(above.code == "bad_job", "\(above)")
        }
        let other = try await outcome("books/a")
        #expect(other.code == "address_forbidden")
        #expect(
            other.message
                == "this worker may not read s3://books: the operator allows it with --source s3://books=PROFILE")
        let missing = try await outcome("\(films.name)/none")
        #expect(missing.code == "http_404" && missing.message?.contains("no such object") == true, "\(missing)")
        let post = try await outcome("\(films.name)/public/a", #","method":"POST""#)
        #expect(post.code == "bad_job", "\(post)")
        // MiniStack accepts any key.
        if kind != .mini {
            for profile in ["wrong", "unknown"] {
                let denied = try await outcome("\(films.name)/public/a", profile: profile)
                #expect(denied.code == "http_403", "\(denied)")
                #expect(denied.message?.contains("--source s3://\(films.name)") == true, "\(denied)")
            }
        }
        try await films.expectNoSecret(in: fleet)
        let log = logged.value.joined(separator: "\n")
        for secret in Films.secrets { #expect(!log.contains(secret)) }
    }

    /// What lets a worker read the bucket `films` of a scripted server.
    private func change(_ origin: OriginServer) throws -> (inout WorkerConfiguration) -> Void {
        Films.prepare()
        let source = BucketSource(try BucketAddress("s3://films", endpoint: origin.url("")), profile: "films")
        return { $0.sources = [source] }
    }

    @Test("credentials that are renewed seconds late end no job, neither at its first bytes nor at later ones")
    func renewedLate() async throws {
        let film = FileBytes(seed: 23, count: 4 << 20)
        let origin = try OriginServer { request in
            var reply = OriginReply.file(film, to: request)
            if request.path == "/films/later", request.number == 1 { (reply.cut, reply.end) = (1 << 20, .fin) }
            // An attempt has four requests, so the first attempt fails.
            let expired = request.path == "/films/later" ? 2...7 : 1...6
            guard expired.contains(request.number) else { return reply }
            return OriginReply(400, body: Array("<Error><Code>ExpiredToken</Code></Error>".utf8))
        }
        let fleet = try await Fleet()
        try await fleet.withWorker("w", try change(origin)) {
            for name in ["first", "later"] {
                try await fleet.push(#"{"url":"s3://films/\#(name)","id":"\#(name)","connections":1}"#)
            }
            for name in ["first", "later"] { try await fleet.wait(name, for: .completed) }
        }
        for name in ["first", "later"] { #expect(fleet.root.holds(name, film)) }
    }

    @Test(
        "an object that was uploaded again with the same bytes is found unchanged by one request",
        arguments: [false, true])
    func sameAgain(_ isDated: Bool) async throws {
        let film = FileBytes(seed: 24, count: 1000)
        let date = Shared("Sun, 01 Nov 2026 10:00:00 GMT")
        let origin = try OriginServer { request in
            // Not every server has the date in a 304.
            var reply = OriginReply.file(film, to: request)
            if reply.status != 304 || isDated { reply.headers.append(("Last-Modified", date.value)) }
            return reply
        }
        let fleet = try await Fleet()
        let element = #"{"url":"s3://films/film","id":"film"}"#
        try await fleet.withWorker("w", try change(origin)) {
            try await fleet.push(element)
            try await fleet.wait("film", for: .completed)
            date.value = "Mon, 02 Nov 2026 10:00:00 GMT"
            try await fleet.push(element)
            try await eventually("an unchanged end") { try await fleet.queue.job("film")?["unchanged"] == "1" }
        }
        #expect(origin.requests.map { $0.headers["if-none-match"] } == [nil, "\"v1\""])
        #expect(fleet.root.holds("film", film))
    }

    @Test("a worker without sources refuses every object, and says what would allow it") func none() async throws {
        let fleet = try await Fleet()
        try await fleet.withWorker("w") {
            try await fleet.push(#"{"url":"s3://films/k","id":"a"}"#)
            try await fleet.wait("a", for: .failed)
        }
        let job = try #require(try await fleet.queue.job("a"))
        #expect(job["error"] == "address_forbidden" && job["message"]?.contains("--source s3://BUCKET") == true)
    }

    @Test("a redirect leads to no object, whatever the worker may read") func redirect() async throws {
        let films = try await Films(ObjectServer.dialects[0])
        try await films.put("k", Array("secret".utf8))
        let origin = try OriginServer { _ in OriginReply(302, headers: [("Location", "s3://\(films.name)/k")]) }
        let fleet = try await Fleet()
        let source = try films.source()
        try await fleet.withWorker("w", { $0.sources = [source] }) {
            try await fleet.push(#"{"url":"\#(origin.url("/r"))","id":"a"}"#)
            try await fleet.wait("a", for: .failed)
        }
        #expect(try await fleet.queue.job("a")?["error"] == "redirect_forbidden")
    }
}
