import Foundation
import HaulContract
import HaulHTTP
import HaulTestSupport
import Testing

@testable import HaulObjectStore

/// Where credentials come from, and that no output shows them.
@Suite struct CredentialsTests {
    @Test("no description or dump of credentials contains a secret") func secrets() {
        let credentials = Credentials(accessKey: "AKIA1234", secret: "wonderful-secret", token: "session-token")
        var dumped = ""
        dump(credentials, to: &dumped)
        dump([credentials], to: &dumped)
        for text in ["\(credentials)", String(reflecting: credentials), dumped, "\([credentials])"] {
            #expect(!text.contains("wonderful") && !text.contains("session-token"))
        }
    }

    @Test("a profile is read from a credentials file of Amazon's tools") func file() {
        let text = """
            # mine
            [default]
            aws_access_key_id = AAA
            aws_secret_access_key=BBB

            [profile other]
            aws_access_key_id=CCC
            aws_secret_access_key = D=D
            aws_session_token = EEE
            [half]
            aws_access_key_id=FFF
            """
        #expect(CredentialsFile.credentials(of: "default", in: text) == Credentials(accessKey: "AAA", secret: "BBB"))
        #expect(
            CredentialsFile.credentials(of: "other", in: text)
                == Credentials(accessKey: "CCC", secret: "D=D", token: "EEE"))
        #expect(CredentialsFile.credentials(of: "half", in: text) == nil)
        #expect(CredentialsFile.credentials(of: "none", in: text) == nil)
    }

    @Test("credentials are searched in the order of Amazon's tools") func locations() {
        let keys = Credentials(accessKey: "A", secret: "S", token: "T")
        let all = [
            "AWS_ACCESS_KEY_ID": "A", "AWS_SECRET_ACCESS_KEY": "S", "AWS_SESSION_TOKEN": "T", "HOME": "/home/me",
            "AWS_ROLE_ARN": "arn:role", "AWS_WEB_IDENTITY_TOKEN_FILE": "/token", "AWS_REGION": "eu-west-1",
            "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "/creds",
        ]
        func locations(_ values: [String: String]) -> [CredentialsLocation] {
            CredentialsLocation.all({ values[$0] }, isReadable: { _ in true })
        }
        let identity = CredentialsLocation.webIdentity(
            role: "arn:role", tokenFile: "/token", session: "haul", endpoint: "https://sts.eu-west-1.amazonaws.com")
        let rest: [CredentialsLocation] = [
            .container(url: "http://169.254.170.2/creds", token: nil), .instance(endpoint: "http://169.254.169.254"),
        ]
        let file = CredentialsLocation.file(path: "/home/me/.aws/credentials", profile: "default")
        #expect(locations(all) == [.environment(keys), identity, file] + rest)
        let named = all.merging(["AWS_PROFILE": "mine"]) { $1 }
        let profile = CredentialsLocation.file(path: "/home/me/.aws/credentials", profile: "mine")
        #expect(locations(named) == [identity, profile] + rest)
        #expect(locations(["AWS_EC2_METADATA_DISABLED": "true"]) == [])
    }

    @Test("a token is sent only over https, or to loopback and Amazon's container services") func tokens() {
        for good in ["https://example.org/x", "http://127.0.0.1:81/x", "http://169.254.170.23/v1/credentials"] {
            #expect(CredentialsFetch.isTrusted(good))
        }
        for bad in ["http://example.org/x", "ftp://127.0.0.1/", "http://10.0.0.1/x", "http://127.evil.example/"] {
            #expect(!CredentialsFetch.isTrusted(bad))
        }
    }

    private func engine() -> TransferEngine {
        var configuration = TransferEngine.Configuration()
        configuration.policy = .unrestricted
        return TransferEngine(configuration: configuration)
    }

    private func answer(_ key: String, until: String) -> OriginReply {
        OriginReply(
            text:
                """
                {"Code":"Success","AccessKeyId":"\(key)","SecretAccessKey":"S","Token":"T","Expiration":"\(until)"}
                """)
    }

    @Test("the credentials of an instance are requested by IMDSv2, and again before they expire")
    func instance() async throws {
        let log = Shared<[String]>([])
        let origin = try OriginServer { [self] request in
            let token = request.headers["x-aws-ec2-metadata-token"] ?? "-"
            log.change { $0.append("\(request.method) \(request.path) \(token)") }
            switch request.path {
            case "/latest/api/token": return OriginReply(text: "the-token")
            case "/latest/meta-data/iam/security-credentials/": return OriginReply(text: "the-role")
            default:
                let count = log.value.count
                return answer("KEY\(count)", until: "2030-01-01T00:00:00Z")
            }
        }
        let time = Shared<Int64>(1_800_000_000)
        let chain = CredentialsChain(
            engine: engine(), locations: [.instance(endpoint: "http://127.0.0.1:\(origin.port)")],
            now: { time.value })
        async let first = chain.credentials()
        async let second = chain.credentials()
        let (a, b) = try await (first, second)
        #expect(a == b && a.accessKey == "KEY3" && a.token == "T")
        #expect(
            log.value == [
                "PUT /latest/api/token -", "GET /latest/meta-data/iam/security-credentials/ the-token",
                "GET /latest/meta-data/iam/security-credentials/the-role the-token",
            ])
        // Four minutes before the credentials expire.
        time.value = AmazonTime.seconds("2029-12-31T23:56:00Z")!
        #expect(try await chain.credentials().accessKey == "KEY6")
        await chain.drop(try await chain.credentials())
        #expect(try await chain.credentials().accessKey == "KEY12")
    }

    @Test("a web identity token is exchanged for credentials") func webIdentity() async throws {
        let directory = TemporaryDirectory()
        try "the.token\n".write(toFile: directory.file("token"), atomically: true, encoding: .utf8)
        let asked = Shared<String>("")
        let origin = try OriginServer { request in
            asked.value = request.headers["content-length"] ?? ""
            return OriginReply(
                text:
                    """
                    <AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
                    <AssumeRoleWithWebIdentityResult><Credentials><SessionToken>T</SessionToken>
                    <SecretAccessKey>S</SecretAccessKey><Expiration>2030-01-01T00:00:00Z</Expiration>
                    <AccessKeyId>K</AccessKeyId></Credentials></AssumeRoleWithWebIdentityResult>
                    </AssumeRoleWithWebIdentityResponse>
                    """)
        }
        let chain = CredentialsChain(
            engine: engine(),
            locations: [
                .webIdentity(
                    role: "arn:r", tokenFile: directory.file("token"), session: "haul",
                    endpoint: "http://127.0.0.1:\(origin.port)")
            ])
        #expect(
            try await chain.credentials()
                == Credentials(
                    accessKey: "K", secret: "S", token: "T", expires: AmazonTime.seconds("2030-01-01T00:00:00Z")))
        let form =
            "Action=AssumeRoleWithWebIdentity&RoleArn=arn%3Ar&RoleSessionName=haul&Version=2011-06-15&WebIdentityToken=the.token"
        #expect(asked.value == "\(form.utf8.count)")
    }

    @Test("the container's credentials service gets its token") func container() async throws {
        let origin = try OriginServer { [self] request in
            request.headers["authorization"] == "secret" ? answer("K", until: "2030-01-01T00:00:00Z") : OriginReply(403)
        }
        let url = "http://127.0.0.1:\(origin.port)/creds"
        let chain = CredentialsChain(
            engine: engine(),
            locations: [.container(url: url, token: .text("wrong")), .container(url: url, token: .text("secret"))])
        #expect(try await chain.credentials().accessKey == "K")
    }

    @Test(
        "a service that has no new credentials when the old ones expire is asked again, and says nothing about access")
    func outage() async throws {
        let isDown = Shared(false)
        let origin = try OriginServer { [self] _ in
            isDown.value ? OriginReply(500) : answer("K", until: "2030-01-01T00:00:00Z")
        }
        let time = Shared<Int64>(1_800_000_000)
        let chain = CredentialsChain(
            engine: engine(), locations: [.container(url: "http://127.0.0.1:\(origin.port)/creds", token: nil)],
            now: { time.value })
        _ = try await chain.credentials()
        (isDown.value, time.value) = (true, AmazonTime.seconds("2030-01-01T00:00:01Z")!)
        let error = await #expect(throws: StoreError.self) { _ = try await chain.credentials() }
        #expect(error?.kind == .transient && error?.failure.code == .io)
        #expect(error?.failure.message.contains("the container's role") == true)
    }

    @Test("a service that the operator has named and that does not answer yet will, so that nothing fails for good")
    func firstOutage() async throws {
        let isDown = Shared(true)
        let origin = try OriginServer { [self] _ in
            isDown.value ? OriginReply(500) : answer("K", until: "2030-01-01T00:00:00Z")
        }
        let container = CredentialsLocation.container(url: "http://127.0.0.1:\(origin.port)/creds", token: nil)
        let chain = CredentialsChain(engine: engine(), locations: [.file(path: "/nowhere", profile: "x"), container])
        let error = await #expect(throws: StoreError.self) { _ = try await chain.credentials() }
        #expect(error?.kind == .transient && error?.status == 0, "\(String(describing: error))")
        isDown.value = false
        #expect(try await chain.credentials().accessKey == "K")
    }

    @Test("the error for missing credentials lists the locations that were searched") func none() async throws {
        let chain = CredentialsChain(engine: engine(), locations: [.file(path: "/nowhere", profile: "x")])
        do {
            _ = try await chain.credentials()
            Issue.record("credentials were found")
        } catch { #expect(error.failure.code == .permission && error.failure.message.contains("/nowhere, profile x")) }
    }
}

extension OriginReply {
    fileprivate init(text: String) { self.init(body: Array(text.utf8)) }
}
