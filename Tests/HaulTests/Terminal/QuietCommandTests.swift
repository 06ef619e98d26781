import Glibc
import HaulContract
import HaulTestSupport
import Testing

/// `haul worker quiet` and `haul worker resume`.
@Suite struct QuietCommandTests {
    @Test("a quiet worker claims no more jobs until it is resumed") func quiet() async throws {
        let bench = try await CommandBench()
        let origin = try OriginServer { _ in OriginReply(body: [1]) }
        let page = "unix:\(bench.root.file(".http"))"
        let worker = try bench.worker("one", "--http", page)
        try await eventually { try await bench.haul("workers").out.contains(#/one +working/#) }
        let quiet = try await bench.haul("worker", "quiet", "one")
        #expect(quiet.status == 0 && quiet.out.contains("one  claims no more jobs of the queue default"), "\(quiet)")
        try await eventually { try await bench.haul("workers").out.contains(#/one +quiet/#) }
        let stats = try await bench.haul("stats")
        #expect(stats.out.contains("\n1 worker, 1 quiet\n") && stats.err.contains("haul worker resume"), "\(stats)")
        let readiness = try await bench.haul("health", "--ready", page)
        #expect(
            readiness.status == 1 && (readiness.out + readiness.err).contains("the worker is quiet"), "\(readiness)")
        _ = try await bench.haul("push", origin.url("/a"), "--id", "a", "-o", "a")
        #expect(try await bench.server.cli("LLEN", "haul:{default}:jobs") == "1")
        #expect(
            try await bench.haul("worker", "resume", "one", "--json").out == "{\"worker\":\"one\",\"quiet\":false}\n")
        #expect(try await bench.haul("watch", "a").status == 0)
        worker.kill(SIGTERM)
        #expect(try await worker.wait() == 0)
    }

    @Test("options may precede or follow the names") func options() async throws {
        let bench = try await CommandBench()
        let worker = try bench.start([
            "worker", "--root", bench.root.path, "--name", "one", "--queue", "films", "--lease", "2",
        ])
        try await eventually { try await bench.haul("workers", "--queue", "films").out.contains("one") }
        for words in [["one", "--queue", "films", "--json"], ["--queue", "films", "--json", "one"]] {
            for (verb, isQuiet) in [("quiet", true), ("resume", false)] {
                let command = try bench.start(
                    ["worker", verb] + words + ["--redis", bench.server.url], redis: "unix:///nowhere")
                #expect(try await command.wait() == 0, "\(words) \(command.standardError)")
                #expect(command.standardOutput == "{\"worker\":\"one\",\"quiet\":\(isQuiet)}\n")
            }
        }
        worker.kill(SIGTERM)
        #expect(try await worker.wait() == 0)
    }

    @Test("an unknown worker is an error, and so is a mistyped subcommand of worker") func unknown() async throws {
        let bench = try await CommandBench()
        let worker = try bench.worker("one")
        try await eventually { try await bench.haul("workers").out.contains("one") }
        let absent = try await bench.haul("worker", "quiet", "onee")
        #expect(absent.status == 1 && absent.err.contains("no worker onee") && absent.err.contains("Did you mean one?"))
        let typo = try await bench.haul("worker", "quite", "one")
        #expect(typo.status == 2 && typo.err.contains("Did you mean haul worker quiet?"), "\(typo)")
        let rootless = try await bench.haul("worker")
        #expect(rootless.status == 2 && rootless.err.contains("requires --root"), "\(rootless)")
        worker.kill(SIGTERM)
        #expect(try await worker.wait() == 0)
    }
}
