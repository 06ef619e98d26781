import Foundation
import HaulContract
import HaulHTTP
import HaulTestSupport
import Testing

@testable import HaulObjectStore

/// The requests for objects that jobs download.
@Suite struct ObjectRequestTests {
    private static let bytes = FileBytes(seed: 3, count: 100_000)
    private let directory = TemporaryDirectory()

    private func sources(
        _ origin: OriginServer, key: String, token: String? = nil
    ) throws -> BucketSources {
        try write(key, token)
        let file = directory.file("credentials")
        return BucketSources(
            [BucketSource(try BucketAddress("s3://films", endpoint: origin.url("")), profile: "p")],
            options: ObjectStore.Options(),
            environment: { $0 == "AWS_SHARED_CREDENTIALS_FILE" ? file : nil })
    }

    private func write(_ key: String, _ token: String? = nil) throws {
        let text = """
            [p]
            aws_access_key_id = \(key)
            aws_secret_access_key = secret
            \(token.map { "aws_session_token = \($0)" } ?? "")
            """
        try Data(text.utf8).write(to: URL(fileURLWithPath: directory.file("credentials")))
    }

    private static func error(_ status: Int, _ code: String) -> OriginReply {
        OriginReply(status, body: Array("<Error><Code>\(code)</Code><Message>m SECRETKEY</Message></Error>".utf8))
    }

    private func part(_ sources: BucketSources, etag: String = "\"v1\"") async throws -> (ResponseHead, [UInt8]) {
        var request = HTTPRequest(url: "")
        request.headers = [HeaderField("Range", "bytes=1000-1999"), HeaderField("If-Range", etag)]
        let transfer = try await sources.start(request, for: try #require(WebURL.object("s3://films/a%20b")))
        return (transfer.head, try await transfer.collect(limit: 100_000))
    }

    @Test(
        "credentials that have expired or were replaced are read again, and the request succeeds",
        arguments: [
            (400, "ExpiredToken"), (403, "InvalidAccessKeyId"), (403, "SignatureDoesNotMatch"), (400, "InvalidToken"),
        ])
    func renewed(_ status: Int, _ code: String) async throws {
        let isExpired = Shared(false)
        let origin = try OriginServer { request in
            let isOld = request.headers["authorization"]?.contains("Credential=OLD/") == true
            if isOld, isExpired.value { return Self.error(status, code) }
            return OriginReply.file(Self.bytes, to: request)
        }
        let sources = try sources(origin, key: "OLD", token: "t")
        #expect(try await part(sources).1 == Self.bytes.bytes(1000..<2000))
        isExpired.value = true
        try write("NEW")
        #expect(try await part(sources).1 == Self.bytes.bytes(1000..<2000))
        #expect(origin.requests.count == 3)
        #expect(origin.requests.allSatisfy { $0.path == "/films/a%20b" && $0.headers["if-range"] == nil })
    }

    @Test("credentials that have expired and cannot be read now are a failure that is retried") func unreadable()
        async throws
    {
        let origin = try OriginServer { request in
            request.number == 1 ? OriginReply.file(Self.bytes, to: request) : Self.error(400, "ExpiredToken")
        }
        let sources = try sources(origin, key: "OLD", token: "t")
        #expect(try await part(sources).1 == Self.bytes.bytes(1000..<2000))
        try write("")
        do {
            _ = try await part(sources)
            Issue.record("no failure")
        } catch TransferError.failed(let failure) {
            #expect(failure.code == .io && !failure.isFinal && failure.blamesMirror, "\(failure)")
            let location = "\(directory.file("credentials")), profile p"
            #expect(
                failure.message
                    == "the bucket films cannot be read: the credentials are no longer valid, and \(location) has no others now"
            )
        }
    }

    @Test("credentials that have expired and are renewed a little late are waited for", arguments: [400, 403])
    func late(_ status: Int) async throws {
        let origin = try OriginServer { request in
            request.number < 3 ? Self.error(status, "ExpiredToken") : OriginReply.file(Self.bytes, to: request)
        }
        let sources = try sources(origin, key: "OLD", token: "t")
        #expect(try await part(sources).1 == Self.bytes.bytes(1000..<2000))
        #expect(origin.requests.count == 3)
    }

    @Test(
        "credentials that stay expired are a failure that is retried, and the message says where they are from",
        arguments: [(400, "ExpiredToken"), (403, "ExpiredToken"), (400, "TokenRefreshRequired")])
    func expired(_ status: Int, _ code: String) async throws {
        let origin = try OriginServer { _ in Self.error(status, code) }
        let sources = try sources(origin, key: "OLD", token: "t")
        do {
            _ = try await part(sources)
            Issue.record("no failure")
        } catch TransferError.failed(let failure) {
            #expect(failure.code == .io && !failure.isFinal && failure.blamesMirror, "\(failure)")
            let location = "\(directory.file("credentials")), profile p"
            #expect(
                failure.message
                    == "the credentials for the bucket films have expired; they are from \(location) (HTTP \(status), \(code))"
            )
        }
        #expect(origin.requests.count == 4)
    }

    @Test("a clock that the bucket refuses after each correction is a failure that is retried") func wrongClock()
        async throws
    {
        let origin = try OriginServer { _ in Self.error(403, "RequestTimeTooSkewed") }
        let sources = try sources(origin, key: "KEY")
        do {
            _ = try await part(sources)
            Issue.record("no failure")
        } catch TransferError.failed(let failure) {
            #expect(failure.code == .io && !failure.isFinal && failure.blamesMirror, "\(failure)")
            #expect(
                failure.message
                    == "the bucket films says that this machine's clock is wrong: set the clock (HTTP 403, RequestTimeTooSkewed)"
            )
        }
        #expect(origin.requests.count == 3)
    }

    @Test(
        "without credentials a worker tries again, a command does not, and both say where they have looked",
        arguments: [true, false])
    func missing(_ isWorker: Bool) async throws {
        let origin = try OriginServer { request in OriginReply.file(Self.bytes, to: request) }
        let address = try BucketAddress("s3://films", endpoint: origin.url(""))
        let variables = [
            "AWS_SHARED_CREDENTIALS_FILE": directory.file("credentials"), "AWS_PROFILE": "p",
            "AWS_EC2_METADATA_DISABLED": "true",
        ]
        let options = ObjectStore.Options()
        let sources =
            isWorker
            ? BucketSources([BucketSource(address, profile: nil)], options: options, environment: { variables[$0] })
            : BucketSources([], options: options, other: { _ in address }, environment: { variables[$0] })
        do {
            _ = try await part(sources)
            Issue.record("no failure")
        } catch TransferError.failed(let failure) {
            #expect(failure.code == .io && failure.isFinal != isWorker, "\(failure)")
            let location = "\(directory.file("credentials")), profile p"
            #expect(
                failure.message
                    == "the bucket films cannot be read: no credentials were found (looked at: \(location))")
        }
        #expect(origin.requests.isEmpty)
        try write("KEY")
        #expect(try await part(sources).1 == Self.bytes.bytes(1000..<2000))
    }

    @Test(
        "the advice about another region names what sets it: the profile, which comes before the option",
        arguments: ["p", nil])
    func region(_ profile: String?) async throws {
        let origin = try OriginServer { request in
            guard request.headers["authorization"]?.contains("/us-east-1/") == true else {
                return OriginReply.file(Self.bytes, to: request)
            }
            var reply = Self.error(400, "AuthorizationHeaderMalformed")
            reply.headers.append(("x-amz-bucket-region", "eu-west-1"))
            return reply
        }
        try write("KEY")
        let (file, notes) = (directory.file("credentials"), Shared<[String]>([]))
        var options = ObjectStore.Options()
        options.notify = { note in notes.change { $0.append(note) } }
        let variables = ["AWS_SHARED_CREDENTIALS_FILE": file, "AWS_PROFILE": "p"]
        let sources = BucketSources(
            [BucketSource(try BucketAddress("s3://films", endpoint: origin.url("")), profile: profile)],
            options: options, environment: { variables[$0] })
        #expect(try await part(sources).1 == Self.bytes.bytes(1000..<2000))
        let setting = profile.map { "region of the profile \($0)" } ?? "--s3-region"
        #expect(notes.value == ["the bucket films is in the region eu-west-1: set \(setting)"])
    }

    @Test(
        "an object that is archived, and a version that is a delete marker, are failures with advice of their own",
        arguments: [
            (403, "InvalidObjectState", "the object is archived: it has to be restored before it can be read"),
            (405, "MethodNotAllowed", "this version of the object is a delete marker: give another version, or none"),
        ])
    func unreadableVersion(_ status: Int, _ code: String, _ advice: String) async throws {
        let origin = try OriginServer { _ in Self.error(status, code) }
        let sources = try sources(origin, key: "KEY")
        do {
            _ = try await part(sources)
            Issue.record("no failure")
        } catch TransferError.failed(let failure) {
            #expect(failure.code == .http(status) && failure.message == "\(advice) (HTTP \(status), \(code))")
        }
    }

    @Test("a source without credentials is reported to the operator") func check() async throws {
        let (file, notes) = (directory.file("credentials"), Shared<[String]>([]))
        try write("KEY")
        var options = ObjectStore.Options()
        options.notify = { note in notes.change { $0.append(note) } }
        let sources = BucketSources(
            [
                BucketSource(try BucketAddress("s3://films"), profile: "p"),
                BucketSource(try BucketAddress("s3://books/in"), profile: "q"),
            ], options: options, environment: { $0 == "AWS_SHARED_CREDENTIALS_FILE" ? file : nil })
        await sources.check()
        #expect(
            notes.value
                == ["jobs cannot read s3://books/in: no credentials were found (looked at: \(file), profile q)"])
    }

    @Test("credentials that stay refused fail the request after they were read again, without the server's message")
    func refused() async throws {
        let origin = try OriginServer { _ in Self.error(403, "InvalidAccessKeyId") }
        let sources = try sources(origin, key: "OLD")
        do {
            _ = try await part(sources)
            Issue.record("no failure")
        } catch TransferError.failed(let failure) {
            #expect(failure.code == .http(403) && failure.message.contains("InvalidAccessKeyId"))
            #expect(!failure.message.contains("SECRETKEY") && !failure.message.contains("OLD"))
        }
        #expect(origin.requests.count == 1)
    }

    @Test("an object that has another ETag is requested again without the condition, to see which one")
    func changed() async throws {
        let origin = try OriginServer { request in
            if let condition = request.headers["if-match"], condition != "\"v2\"" {
                return Self.error(412, "PreconditionFailed")
            }
            return OriginReply.file(Self.bytes, etag: "\"v2\"", to: request)
        }
        let sources = try sources(origin, key: "KEY")
        let (head, _) = try await part(sources)
        #expect(head.status == 206 && head.headers["etag"] == "\"v2\"")
        #expect(origin.requests.map { $0.headers["if-match"] } == ["\"v1\"", nil])
    }

    @Test("a server that compares ETags without quotes gets them so from the second request on")
    func bare() async throws {
        let origin = try OriginServer { request in
            if let condition = request.headers["if-match"], condition != "v1" {
                return Self.error(412, "PreconditionFailed")
            }
            return OriginReply.file(Self.bytes, to: request)
        }
        let sources = try sources(origin, key: "KEY")
        for _ in 0..<3 { #expect(try await part(sources).0.status == 206) }
        #expect(origin.requests.map { $0.headers["if-match"] } == ["\"v1\"", nil, "v1", "v1"])
    }

    @Test("the source with the longest prefix of the key is used, each with its own endpoint") func prefixes()
        async throws
    {
        let origins = try ["one", "two"].map { text in
            try OriginServer { _ in OriginReply(body: Array(text.utf8)) }
        }
        let sources = BucketSources(
            [
                BucketSource(try BucketAddress("s3://films", endpoint: origins[0].url("")), profile: nil),
                BucketSource(try BucketAddress("s3://films/a/b", endpoint: origins[1].url("")), profile: nil),
                BucketSource(try BucketAddress("s3://films/pr\u{e9}", endpoint: origins[1].url("")), profile: nil),
            ], options: ObjectStore.Options(),
            environment: { ["AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s"][$0] })
        for (key, text) in [
            ("a/b/c", "two"), ("a/bc", "one"), ("a/b", "one"), ("c", "one"), ("pr%C3%A9/a", "two"),
            ("pre%CC%81/a", "one"),
        ] {
            let url = try #require(WebURL.object("s3://films/\(key)"))
            let transfer = try await sources.start(HTTPRequest(url: ""), for: url)
            #expect(try await transfer.collect(limit: 10) == Array(text.utf8), "\(key)")
        }
    }

    @Test("a profile's endpoint and region are read from either of Amazon's files") func profile() throws {
        try write("KEY")
        let config = "[profile p]\nendpoint_url = http://127.0.0.1:9000\nregion = eu-west-1\n[profile q]\nregion = x"
        try Data(config.utf8).write(to: URL(fileURLWithPath: directory.file("config")))
        let variables = [
            "AWS_SHARED_CREDENTIALS_FILE": directory.file("credentials"), "AWS_CONFIG_FILE": directory.file("config"),
        ]
        let profile = BucketProfile("p") { variables[$0] }
        #expect(profile.endpoint == "http://127.0.0.1:9000" && profile.region == "eu-west-1" && profile.hasCredentials)
        #expect(BucketProfile("q") { variables[$0] }.hasCredentials == false)
        try profile.checkEndpoint()
        try Data("[p]\nendpoint_url = minio:9000/x".utf8).write(to: URL(fileURLWithPath: directory.file("config")))
        let wrong = #expect(throws: Failure.self) { try BucketProfile("p") { variables[$0] }.checkEndpoint() }
        #expect(wrong?.message.hasPrefix("endpoint_url of the profile \"p\" is wrong: ") == true)
        #expect(BucketProfile("p") { _ in nil }.hasCredentials == false)
    }
}
