import Foundation
import Glibc
import HaulBus
import HaulContract
import HaulObjectStore
import HaulRedis
import HaulStorage
import HaulTestSupport
import Testing

@testable import HaulWorker

/// The examples of docs/guides/gate.md.
@Suite(.timeLimit(.minutes(6))) struct GateExampleTests {
    @Test("the page's example with clamdscan refuses a virus, and waits for a scanner that does not run")
    func scanner() async throws {
        let bench = try await GateBench()
        let page = try Pages.text("docs/guides/gate.md")
        let command = try #require(page.firstMatch(of: /haul worker --root files --gate '(clamdscan [^']*)'/)).1
        // It behaves as clamdscan does when it gets a stream.
        let stub = """
            #!/bin/sh
            [ "$*" = "--no-summary -" ] || exit 3
            [ -e \(bench.notes.file("clamd")) ] || { echo "ERROR: Could not connect to clamd"; exit 2; }
            if grep -q EICAR; then echo "stream: Eicar-Test-Signature FOUND"; exit 1; fi
            echo "stream: OK"

            """
        try stub.write(toFile: bench.notes.file("clamdscan"), atomically: true, encoding: .utf8)
        chmod(bench.notes.file("clamdscan"), 0o755)
        let origin = try OriginServer { request in
            OriginReply(body: Array((request.path == "/virus" ? "an EICAR test" : "words").utf8))
        }
        let change: (inout WorkerConfiguration) -> Void = {
            $0.gate = "PATH=\(bench.notes.path):$PATH; \(command)"
            $0.gateRetryAfter = .milliseconds(100)
        }
        try await bench.fleet.withWorker("w", change) {
            for id in ["virus", "clean"] {
                try await bench.fleet.push(#"{"url":"\#(origin.url("/\(id)"))","id":"\#(id)","path":"\#(id)"}"#)
                try await eventually("a failed scan") {
                    try await bench.fleet.queue.job(id)?["failures"]?.contains("Could not connect to clamd") == true
                }
            }
            _ = FileManager.default.createFile(atPath: bench.notes.file("clamd"), contents: nil)
            let refused = try await bench.fleet.end("virus")
            #expect(refused["error"] == "gate_refused" && refused["message"] == "stream: Eicar-Test-Signature FOUND")
            #expect(page.contains("`\(refused["message"] ?? "")`"))
            #expect(try await bench.fleet.end("clean").state == .completed)
        }
        #expect(bench.fleet.root.names == ["clean"])
    }

    @Test("the page's example unpacks an archive repeatably, and refuses a damaged one") func unpacker() async throws {
        let bench = try await GateBench()
        let script = bench.notes.file("unpack")
        try #require(try Pages.blocks("sh gate", of: "docs/guides/gate.md").first).write(
            toFile: script, atomically: true, encoding: .utf8)
        chmod(script, 0o755)
        mkdir(bench.notes.file("a"), 0o755)
        try "one".write(toFile: bench.notes.file("a/one"), atomically: true, encoding: .utf8)
        symlink("nowhere", bench.notes.file("a/dangling"))
        mkfifo(bench.notes.file("a/fifo"), 0o644)
        try "not a tar archive".write(toFile: bench.notes.file("broken"), atomically: true, encoding: .utf8)
        let a = bench.notes.file("a")
        for (command, arguments) in [
            ("tar", ["-czf", bench.notes.file("a.tar.gz"), "-C", a, "one", "dangling"]),
            ("tar", ["-czf", bench.notes.file("fifo.tar.gz"), "-C", a, "one", "fifo"]),
            ("gzip", [bench.notes.file("broken")]),
        ] {
            let process = try ChildProcess(command, arguments)
            #expect(try await process.wait() == 0)
        }
        let archive = try #require(bench.notes.contents("a.tar.gz"))
        let others: [String: [UInt8]] = [
            "/damaged": Array(archive.dropLast(9)), "/broken": try #require(bench.notes.contents("broken.gz")),
            "/fifo": try #require(bench.notes.contents("fifo.tar.gz")),
        ]
        let origin = try OriginServer { request in OriginReply(body: others[request.path] ?? archive) }
        // One directory that does not belong to a job, and one of a run that was killed before it named its result.
        for (directory, file) in [("taken", "taken/of another"), ("again", "again/one")] {
            mkdir(bench.fleet.root.file(directory), 0o755)
            try "one".write(toFile: bench.fleet.root.file(file), atomically: true, encoding: .utf8)
        }
        symlink("nowhere", bench.fleet.root.file("again/dangling"))
        try await bench.fleet.withWorker("w", { $0.gate = script }) {
            for (id, path) in [
                ("good", "films/a b.tar.gz"), ("damaged", "films/damaged.tar.gz"), ("other", "films/c.txt"),
                ("nameless", "films/.tar.gz"), ("taken", "taken.tar.gz"), ("again", "again.tar.gz"),
                ("broken", "films/broken.tar.gz"), ("fifo", "films/fifo.tar.gz"),
            ] {
                try await bench.fleet.push(#"{"url":"\#(origin.url("/\(id)"))","id":"\#(id)","path":"\#(path)"}"#)
            }
            #expect(try await bench.fleet.end("good").state == .completed)
            #expect(try await bench.fleet.end("other").state == .completed)
            #expect(try await bench.fleet.end("nameless").state == .completed)
            #expect(try await bench.fleet.end("again").state == .completed)
            #expect(try await bench.fleet.end("taken")["message"] == "taken exists with other contents")
            for id in ["damaged", "broken"] {
                let damaged = try await bench.fleet.end(id)
                #expect(damaged["error"] == "gate_refused")
                #expect(damaged["message"] == "films/\(id).tar.gz is damaged")
            }
            let special = try await bench.fleet.end("fifo")
            #expect(special["error"] == "gate_refused" && special["message"]?.contains("a device or a FIFO") == true)
        }
        #expect(!bench.fleet.root.names.contains { $0.hasPrefix(".haul.unpack-") })
        let names = try FileManager.default.contentsOfDirectory(atPath: bench.fleet.root.file("films")).sorted()
        #expect(names == [".tar.gz", "a b", "a b.tar.gz", "c.txt"])
        #expect(bench.fleet.root.contents("taken/of another") == Array("one".utf8))
        #expect(bench.fleet.root.contents("films/a b/one") == Array("one".utf8))
    }
}
