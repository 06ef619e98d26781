import Foundation
import Glibc
import HaulTestSupport
import Testing

/// Objects of private buckets with real processes, as docs/guides/sources.md says.
@Suite(
    .disabled(if: ObjectServer.dialects.isEmpty, "no object store is installed: deploy/test.sh does that"),
    .timeLimit(.minutes(4)))
struct SourceCommandTests {
    private static let film = FileBytes(seed: 31, count: 48 << 20)

    /// A server with the object `2026/film.mkv` in the bucket `films`, and a credentials file for it.
    private struct Films {
        let server: ObjectServer
        let bench: CommandBench
        private let home = TemporaryDirectory()

        /// The object is put once, because each PUT makes it another version for those who read it.
        private static let servers = Shared<[ObjectServer.Kind: Task<ObjectServer, any Error>]>([:])

        private static func server(_ kind: ObjectServer.Kind) async throws -> ObjectServer {
            let task = servers.change { servers in
                let task =
                    servers[kind]
                    ?? Task {
                        let server = try await ObjectServer.shared(kind)
                        try await server.put(SourceCommandTests.film, as: "2026/film.mkv", in: "films")
                        return server
                    }
                servers[kind] = task
                return task
            }
            return try await task.value
        }

        init(_ kind: ObjectServer.Kind) async throws {
            (server, bench) = (try await Self.server(kind), try await CommandBench())
            let profile = """
                [films]
                aws_access_key_id = testkey
                aws_secret_access_key = testsecret
                endpoint_url = \(server.endpoint)
                """
            try Data(profile.utf8).write(to: URL(fileURLWithPath: home.file("credentials")))
        }

        var credentials: [String: String] {
            ["AWS_SHARED_CREDENTIALS_FILE": home.file("credentials"), "AWS_PROFILE": "films"]
        }

        var environment: [String: String] { credentials.merging(["HAUL_REDIS": bench.server.url]) { $1 } }

        func start(_ arguments: String...) throws -> ChildProcess {
            try ChildProcess("haul", arguments, environment: environment)
        }

        func worker(_ name: String, _ more: String...) throws -> ChildProcess {
            let arguments = [
                "worker", "--root", bench.root.file("files"), "--name", name, "--lease", "2", "--source",
                "s3://films=films", "--log-level", "trace",
            ]
            return try ChildProcess("haul", arguments + more, environment: environment)
        }
    }

    @Test(
        "the page's job survives kill -9 of its worker, and no secret is in a log or in Redis",
        arguments: ObjectServer.dialects)
    func killed(_ kind: ObjectServer.Kind) async throws {
        let films = try await Films(kind)
        try FileManager.default.createDirectory(
            atPath: films.bench.root.file("files"), withIntermediateDirectories: true)
        let one = try films.worker("one", "--limit-rate", "12M")
        let page = try #require(try Pages.blocks("sh sources", of: "docs/guides/sources.md").first)
        let words = page.split(whereSeparator: \.isWhitespace).map(String.init)
        let push = try ChildProcess("haul", Array(words.dropFirst()), environment: films.environment)
        #expect(try await push.wait() == 0, "\(push.standardError)")
        let offsets = "haul:{default}:offsets:film"
        try await eventually("a checkpoint", within: .seconds(40), every: .milliseconds(20)) {
            let values = try await films.bench.server.cli("HGETALL", offsets).split(separator: "\n").compactMap {
                Int($0)
            }
            return values.max() ?? 0 > 8 << 20
        }
        one.kill(SIGKILL)
        _ = try await one.wait()
        let two = try films.worker("two")
        try await eventually("the end", within: .seconds(60), every: .milliseconds(50)) {
            try await films.bench.server.cli("HGET", "haul:{default}:job:film", "state") == "completed"
        }
        two.kill(SIGTERM)
        #expect(try await two.wait() == 0)
        #expect(films.bench.root.holds("files/films/film.mkv", Self.film))
        #expect(two.standardError.contains("resumed"), "\(two.standardError)")
        for key in try await films.bench.server.cli("KEYS", "*").split(separator: "\n") {
            #expect(try await !films.bench.server.cli("DUMP", String(key)).contains("testsecret"), "\(key)")
        }
        for log in [one.standardError, two.standardError] {
            #expect(!log.contains("testsecret") && !log.contains("testkey") && !log.contains("Signature="))
        }
    }

    @Test("haul get reads an object with the user's own credentials, and continues it after kill -9")
    func get() async throws {
        let films = try await Films(ObjectServer.dialects[0])
        let bench = GetBench()
        // The endpoint is that of the profile which AWS_PROFILE names.
        let arguments = ["s3://films/2026/film.mkv"]
        let first = try bench.start(arguments + ["--limit-rate", "6M"], environment: films.credentials)
        try await eventually("a record of 8 MiB", within: .seconds(30)) { bench.recorded >= 8 << 20 }
        first.kill(SIGKILL)
        _ = try await first.wait()
        let second = try bench.start(arguments + ["-x1", "--verbose"], environment: films.credentials)
        #expect(try await second.wait() == 0, "\(second.standardError)")
        // The first request of a download that begins has no range.
        let output = second.standardOutput + second.standardError
        #expect(output.contains("requests the bytes") && !output.contains("testsecret"), "\(output)")
        #expect(bench.files.holds("film.mkv", Self.film))
        let third = try bench.start(arguments, environment: films.credentials)
        #expect(try await third.wait() == 0 && third.standardOutput.contains("unchanged"), "\(third.standardOutput)")
    }

    @Test("a worker does not start with a source that it cannot use, and says why")
    func wrong() async throws {
        let films = try await Films(ObjectServer.dialects[0])
        for (source, words) in [
            ("s3://films=none", "no profile \"none\""), ("films", "is not a valid object store"),
            ("s3://f", "is not a valid bucket name"), ("s3://films=", "no profile \"\""),
        ] {
            let worker = try films.start("worker", "--root", films.bench.root.path, "--source", source)
            #expect(try await worker.wait() == 2 && worker.standardError.contains(words), "\(worker.standardError)")
        }
        let twice = try films.start(
            "worker", "--root", films.bench.root.path, "--source", "s3://films/a=films", "--source", "s3://films=films",
            "--source", "s3://films/a/")
        #expect(try await twice.wait() == 2)
        #expect(twice.standardError.contains("--source names s3://films/a twice"), "\(twice.standardError)")
    }
}
