import Foundation
import Glibc
import HaulTestSupport
import Testing

/// Downloads of `haul get` into a bucket.
@Suite(
    .disabled(
        if: ObjectServer.installed.isEmpty, "neither radosgw nor SeaweedFS is installed: deploy/test.sh does that"))
struct GetBucketTests {
    /// A key prefix for one test, in the bucket of a real server.
    private struct Place {
        let server: ObjectServer
        let prefix = "g\(UInt64.random(in: 0...(.max)))"
        let bench = GetBench()

        init() async throws { server = try await .shared(ObjectServer.installed.last!) }

        /// Runs the command of another user: with another home.
        func getElsewhere(_ words: String...) async throws -> (status: Int32, out: String, err: String) {
            let other = GetBench()
            let process = try other.start(words + arguments, environment: server.environment)
            return (try await process.wait(), process.standardOutput, process.standardError)
        }

        var arguments: [String] { ["-d", "s3://\(server.bucket)/\(prefix)/", "--s3-endpoint", server.endpoint] }

        func start(_ words: String...) throws -> ChildProcess {
            try bench.start(words + arguments, environment: server.environment)
        }

        func get(_ words: String...) async throws -> (status: Int32, out: String, err: String) {
            let process = try bench.start(words + arguments, environment: server.environment)
            return (try await process.wait(), process.standardOutput, process.standardError)
        }

        func holds(_ path: String, _ bytes: FileBytes) async throws -> Bool {
            try await server.object("\(prefix)/\(path)") == bytes.all
        }
    }

    private static let bytes = FileBytes(seed: 92, count: 30 << 20)

    @Test("Ctrl-C and kill -9 leave parts in the bucket, which the same command continues")
    func interrupted() async throws {
        for signal in [SIGINT, SIGKILL] {
            let (place, gate) = (try await Place(), Latch())
            let origin = try OriginServer { request in
                var reply = OriginReply.file(Self.bytes, to: request)
                reply.hold = (21 << 20, gate)
                return reply
            }
            let first = try place.start(origin.url("/x.bin"), "-x1")
            try await eventually("a record of two parts", within: .seconds(30)) {
                place.bench.recorded >= 16 << 20
            }
            first.kill(signal)
            _ = try await first.wait()
            let recorded = place.bench.recorded
            gate.open()
            let second = try await place.get(origin.url("/x.bin"), "-x1")
            #expect(second.status == 0, "\(second)")
            #expect(second.out.contains("completed  s3://test/\(place.prefix)/x.bin  31.5 MB"), "\(second)")
            #expect(try await place.holds("x.bin", Self.bytes))
            #expect(origin.requests.contains { $0.headers["range"]?.hasPrefix("bytes=\(recorded)-") == true })
            #expect(place.bench.names.isEmpty)
        }
    }

    @Test("Ctrl-C and SIGTERM keep every byte that has arrived, those of incomplete parts included")
    func keepsAll() async throws {
        for signal in [SIGINT, SIGTERM] {
            let (place, gate) = (try await Place(), Latch())
            defer { gate.open() }
            let origin = try OriginServer { request in
                var reply = OriginReply.file(Self.bytes, to: request)
                reply.hold = (13 << 20, gate)
                return reply
            }
            let first = try place.start(origin.url("/x.bin"), "-x1", "--json")
            try await eventually("13 MiB", within: .seconds(30)) {
                // The last line may not be complete yet.
                first.standardOutput.contains(#""received":\#(13 << 20),"#)
            }
            #expect(place.bench.recorded < 13 << 20)
            first.kill(signal)
            #expect(try await first.wait() == 130)
            #expect(place.bench.recorded == 13 << 20)
            gate.open()
            let second = try await place.get(origin.url("/x.bin"), "-x1")
            #expect(second.status == 0, "\(second)")
            #expect(origin.requests.last?.headers["range"]?.hasPrefix("bytes=\(13 << 20)-") == true)
            #expect(try await place.holds("x.bin", Self.bytes))
        }
    }

    @Test("a download that restarts leaves nothing of its first version in the bucket") func restarted() async throws {
        let place = try await Place()
        let versions = [95, 96].map { FileBytes(seed: $0, count: 20 << 20) }
        let origin = try OriginServer { request in
            let version = request.number == 1 ? 0 : 1
            var reply = OriginReply.file(versions[version], etag: "\"v\(version)\"", to: request)
            if version == 0 { (reply.cut, reply.end) = (12 << 20, .reset) }
            return reply
        }
        let get = try await place.get(origin.url("/x.bin"), "-x1")
        #expect(get.status == 0, "\(get)")
        #expect(try await place.holds("x.bin", versions[1]))
        for (query, count) in [("list-type=2&prefix=\(place.prefix)", 1), ("prefix=\(place.prefix)&uploads=", 0)] {
            let listed = String(decoding: try #require(try await place.server.object("?\(query)")), as: UTF8.self)
            #expect(listed.components(separatedBy: "<Key>").count - 1 == count, "\(listed)")
        }
    }

    @Test("an existing object stays, unless it is the command's own or an option says otherwise")
    func existing() async throws {
        let place = try await Place()
        let small = FileBytes(seed: 93, count: 40_000)
        let other = FileBytes(seed: 94, count: 50_000)
        let origin = try OriginServer { request in .file(request.path.hasPrefix("/b/") ? other : small, to: request) }
        #expect(try await place.get(origin.url("/a/x")).status == 0)
        let again = try await place.get(origin.url("/a/x"))
        #expect(again.status == 0 && again.out.contains("unchanged"), "\(again)")
        let refused = try await place.get(origin.url("/b/x"))
        #expect(refused.status == 1 && refused.err.contains("x exists: choose --if-exists"), "\(refused)")
        let skipped = try await place.get(origin.url("/b/x"), "--if-exists", "skip")
        #expect(skipped.status == 0, "\(skipped)")
        #expect(try await place.holds("x", small))
        let replaced = try await place.get(origin.url("/b/x"), "--if-exists", "overwrite")
        #expect(replaced.status == 0, "\(replaced)")
        #expect(try await place.holds("x", other))
    }

    @Test("an object that the user has named belongs to its URL, and to the download log that knows it")
    func named() async throws {
        let place = try await Place()
        let bytes = ["/a/x": FileBytes(seed: 93, count: 40_000), "/b/x": FileBytes(seed: 94, count: 40_000)]
        let origin = try OriginServer { .file(bytes[$0.path]!, to: $0) }
        let (first, second) = (["-o", "r.csv", origin.url("/a/x")], ["-o", "r.csv", origin.url("/b/x")])
        #expect(try await place.get(first[0], first[1], first[2]).status == 0)
        let other = try await place.get(second[0], second[1], second[2])
        #expect(other.status == 1 && other.err.contains("r.csv exists: choose --if-exists"), "\(other)")
        for words in [first, second] {
            let elsewhere = try await place.getElsewhere(words[0], words[1], words[2])
            #expect(elsewhere.status == 1 && elsewhere.err.contains("r.csv exists: choose --if-exists"), "\(elsewhere)")
        }
        #expect(try await place.holds("r.csv", bytes["/a/x"]!))
        // The log still knows the object.
        let again = try await place.get(first[0], first[1], first[2])
        #expect(again.status == 0 && again.out.contains("unchanged"), "\(again)")
        let replaced = try await place.get(second[0], second[1], second[2], "--if-exists", "overwrite")
        #expect(replaced.status == 0, "\(replaced)")
        #expect(try await place.holds("r.csv", bytes["/b/x"]!))
    }

    @Test("skip leaves an own object as well, although the server has another version", arguments: [true, false])
    func skipped(isNamedByServer: Bool) async throws {
        let place = try await Place()
        let versions = [95, 96].map { FileBytes(seed: $0, count: 40_000) }
        let version = Shared(0)
        let origin = try OriginServer { request in
            let name = isNamedByServer ? [("Content-Disposition", "attachment; filename=y")] : []
            return .file(versions[version.value], etag: "\"\(version.value)\"", headers: name, to: request)
        }
        #expect(try await place.get(origin.url("/x"), "-nc").status == 0)
        version.value = 1
        let before = origin.requests.count
        let again = try await place.get(origin.url("/x"), "-nc")
        #expect(again.status == 0 && again.out.contains("skipped"), "\(again)")
        #expect(try await place.holds(isNamedByServer ? "y" : "x", versions[0]))
        #expect(isNamedByServer || origin.requests.count == before)
        // The log still knows the object.
        let replaced = try await place.get(origin.url("/x"))
        #expect(replaced.status == 0, "\(replaced)")
        #expect(try await place.holds(isNamedByServer ? "y" : "x", versions[1]))
    }

    @Test("skip keeps what is unfinished of an own object that a killed run may have completed")
    func skippedUnfinished() async throws {
        let (place, gate) = (try await Place(), Latch())
        let origin = try OriginServer { request in
            var reply = OriginReply.file(Self.bytes, to: request)
            reply.hold = (21 << 20, gate)
            return reply
        }
        let first = try place.start(origin.url("/x.bin"), "-x1")
        try await eventually("a record of two parts", within: .seconds(30)) { place.bench.recorded >= 16 << 20 }
        first.kill(SIGKILL)
        _ = try await first.wait()
        let before = place.bench.log
        gate.open()
        #expect(try await place.get(origin.url("/x.bin"), "-x1").status == 0)
        // As if the run had been killed before it recorded what it completed.
        place.bench.log = before
        let skipped = try await place.get(origin.url("/x.bin"), "-nc")
        #expect(skipped.status == 0 && skipped.out.contains("skipped"), "\(skipped)")
        let again = try await place.get(origin.url("/x.bin"))
        #expect(again.status == 0, "\(again)")
        #expect(try await place.holds("x.bin", Self.bytes))
    }

    @Test("with a checksum, skip verifies an own object again instead of failing because of it")
    func skippedWithChecksum() async throws {
        let place = try await Place()
        let bytes = FileBytes(seed: 97, count: 40_000)
        let origin = try OriginServer { request in
            .file(bytes, headers: [("Content-Disposition", "attachment; filename=y")], to: request)
        }
        #expect(try await place.get(origin.url("/x")).status == 0)
        let again = try await place.get(origin.url("/x"), "-nc", "--checksum", "sha256:\(bytes.sha256)")
        #expect(again.status == 0, "\(again)")
        #expect(try await place.holds("y", bytes))
    }

    @Test("of two downloads whose servers give one name, the first one keeps it, even with overwrite")
    func oneName() async throws {
        let place = try await Place()
        let origin = try OriginServer { request in
            .file(
                FileBytes(seed: request.path == "/1" ? 1 : 2, count: 1000),
                headers: [("Content-Disposition", "attachment; filename=data.csv")], to: request)
        }
        let get = try await place.get(origin.url("/1"), origin.url("/2"), "--if-exists", "overwrite", "-j1")
        #expect(get.status == 1 && get.err.contains("data.csv is the file of \(origin.url("/1"))"), "\(get)")
        #expect(try await place.holds("data.csv", FileBytes(seed: 1, count: 1000)))
    }

    @Test("an invalid bucket is refused before any request") func refused() async throws {
        let bench = GetBench()
        bench.write("newer", "http://127.0.0.1:1/y\n conditional-get=true\n")
        bench.write("bucket", "http://127.0.0.1:1/y\n dir=s3://b/p\n")
        for (words, sentence) in [
            (["-d", "s3://"], "is not a valid bucket name"),
            (["-d", "s3://b/p", "-N"], "-N compares the time of a file"),
            (["-d", "s3://b/p", "-i", "newer"], "newer, line 1: -N compares the time of a file"),
            (["-N", "-i", "bucket"], "bucket, line 1: -N compares the time of a file"),
            (["-N", "-o", "s3://b/x", "http://127.0.0.1:1/y", "-o", "s3://b/y"], "-N compares the time of a file"),
            (["-d", "s3://b/p", "--s3-style", "odd"], "--s3-style must be path or virtual"),
        ] {
            let process = try bench.start(["http://127.0.0.1:1/x"] + words)
            #expect(try await process.wait() != 0)
            #expect(process.standardError.contains(sentence), "\(words): \(process.standardError)")
        }
    }
}
