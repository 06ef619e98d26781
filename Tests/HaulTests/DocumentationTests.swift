import Foundation
import Glibc
import HaulTestSupport
import Testing

/// Runs the examples of README.md and docs/ as a reader would. The blocks fenced as `sh run` of a page are one session.
@Suite struct DocumentationTests {
    private static let pages = Pages.names.filter { (try? Pages.blocks("sh run", of: $0).isEmpty) == false }

    @Test("pages with examples are found") func found() { #expect(Self.pages.count > 10) }

    @Test("the examples of a page work", arguments: pages) func page(_ name: String) async throws {
        let blocks = try Pages.blocks("sh run", of: name)
        let bench = try await CommandBench()
        let big = FileBytes(seed: 51, count: 4_000_000)
        // The origin holds these files, so that their jobs do not end before they are paused or cancelled. It releases
        // the first file once its job is paused.
        let (first, second) = (Latch(), Latch())
        defer { second.open() }
        let origin = try OriginServer { request in
            guard request.path.hasPrefix("/big") else { return .file(FileBytes(seed: 52, count: 1000), to: request) }
            var reply = OriginReply.file(big, to: request)
            reply.hold = (100_000, request.path == "/big.bin" ? first : second)
            return reply
        }
        let events = try ChildProcess(
            "redis-cli", ["-s", bench.server.socket, "PSUBSCRIBE", "haul:{default}:events:*"])
        try await eventually("the subscription") { events.standardOutput.contains("psubscribe") }
        let pausing = Task {
            defer { first.open() }
            try await eventually("a job to be paused", within: .seconds(60)) {
                events.standardOutput.contains(#""event":"paused""#)
            }
        }
        var workers = [try bench.worker("one"), try bench.worker("two")]
        let movesSchedules = name == "docs/operate/partitions.md"
        if movesSchedules {
            workers.append(try bench.worker("three", "--queue", "films#8"))
            let weekly = #"{"cron":"0 3 * * 1","job":{"url":"https://example.org/w?key=1","kind":"request"}}"#
            _ = try await bench.server.cli("HSET", "haul:{films#2of8}:schedules", "weekly", weekly)
        }
        try await eventually("both workers") {
            try await bench.server.cli("ZCARD", "haul:{default}:workers") == "2"
        }
        // Make redis-cli and haul work as the page writes them. The pages for a first start call the root `files`.
        let (haul, place) = (try #require(ChildProcess.path(of: "haul")), TemporaryDirectory())
        if name.hasPrefix("docs/start/") {
            try FileManager.default.createSymbolicLink(
                atPath: place.file("files"), withDestinationPath: bench.root.path)
        }
        try FileManager.default.copyItem(atPath: ShippedRoles.path, toPath: place.file("users.acl"))
        let functions = """
            redis-cli() { [ "${1-}" != -c ] || shift; command redis-cli -s \(bench.server.socket) "$@"; }
            haul() { \(haul) "$@"; }
            set -euo pipefail
            cd '\(place.path)'

            """
        let session = blocks.joined(separator: "\n").replacingOccurrences(
            of: "https://example.org", with: origin.url(""))
        let shell = try ChildProcess(
            "bash", ["-c", functions + session],
            environment: ["HAUL_REDIS": bench.server.url, "XDG_STATE_HOME": place.file(".state")])
        let status = try await shell.wait(within: .seconds(90))
        // A page without a pause leaves this task waiting. The page itself checks the states of its jobs.
        pausing.cancel()
        #expect(status == 0, "\(shell.standardOutput)\n\(shell.standardError)")
        // redis-cli exits with 0 even for an error reply.
        let errors = shell.standardOutput.split(separator: "\n").filter { line in
            ["ERR ", "WRONGTYPE ", "NOPERM ", "NOAUTH "].contains { line.hasPrefix($0) }
        }
        #expect(errors.isEmpty, "\(errors)")
        if movesSchedules {
            let moved = try await bench.server.cli("HGET", "haul:{films#2of16}:schedules", "weekly")
            #expect(moved.contains("w?key=1"))
        }
        for worker in workers {
            worker.kill(SIGTERM)
            #expect(try await worker.wait() == 0)
        }
    }
}
