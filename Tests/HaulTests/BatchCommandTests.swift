import Glibc
import HaulTestSupport
import Testing

@Suite("Batches in the command") struct BatchCommandTests {
    @Test("jobs are pushed as a batch, which is listed, shown and cancelled") func batches() async throws {
        let bench = try await CommandBench()
        let none = try await bench.haul("batches")
        #expect(none.status == 0 && none.out.isEmpty && none.err.contains("has no batch"))
        // A URL that is given twice is one job.
        let pushed = try await bench.haul(
            "push", "-", "--batch", "night", "--batch-reply-to", "me",
            input:
                "http://h/1\nhttp://h/1\n{\"url\":\"http://h/2\",\"id\":\"two\",\"delay\":1000,\"batch\":\"other\"}\nftp://h/\n"
        )
        #expect(pushed.status == 2)
        let right = try await bench.haul(
            "push", "-", "--batch", "night", "--batch-reply-to", "me", "--delay", "1000",
            input: "http://h/1\nhttp://h/1\n{\"url\":\"http://h/2\",\"id\":\"two\",\"batch\":\"other\"}\n")
        #expect(right.status == 0, "\(right.err)")
        let element = try await bench.server.cli("LINDEX", "haul:{default}:jobs", "-1")
        // The job of another batch does not count.
        #expect(element.contains(#""batch":{"name":"night","size":1,"reply_to":"me"}"#), "\(element)")
        let worker = try bench.worker("w")
        try await eventually("the jobs to be counted", within: .seconds(20)) {
            try await bench.server.cli("HGET", "haul:{default}:batch:other", "pending") == "1"
        }
        let list = try await bench.haul("batches")
        #expect(list.out.contains("BATCH") && list.out.contains("night") && list.out.contains("other"))
        let shown = try await bench.haul("batches", "night", "--json")
        #expect(
            shown.out.hasPrefix(
                #"{"name":"night","pending":1,"completed":0,"failed":0,"cancelled":0,"rejected":0,"size":1,"round":0,"#
            ),
            "\(shown.out)")
        let unknown = try await bench.haul("batches", "night", "nothing")
        #expect(
            unknown.status == 1 && unknown.err.contains("no batch nothing is known") && unknown.out.contains("night"))
        #expect(try await bench.haul("cancel", "--batch", "night").status == 2)
        let cancelled = try await bench.haul("cancel", "--batch", "night", "--yes")
        #expect(cancelled.status == 0 && cancelled.out == "batch night  cancel requested\n")
        try await eventually("the job to be cancelled", within: .seconds(20)) {
            try await bench.server.cli("HGET", "haul:{default}:batch:night", "cancelled") == "1"
        }
        #expect(try await bench.server.cli("HGET", "haul:{default}:batch:other", "pending") == "1")
        for (arguments, words) in [
            (["remove", "--batch", "night", "--yes"], "remove does not apply to a batch"),
            (["pause", "--batch", "a b"], "not a valid batch name"),
            (["pause", "--batch", "a", "--all"], "give ids"),
            (["push", "http://h/", "--batch-size", "2"], "require --batch"),
            (["push", "http://h/", "--batch", "b", "--batch-size", "0"], "batch: must be"),
            (["batches", "a b"], "not a valid batch name"),
        ] {
            let process = try bench.start(arguments)
            #expect(try await process.wait() == 2, "\(arguments)")
            #expect(process.standardError.contains(words), "\(arguments): \(process.standardError)")
        }
        worker.kill(SIGTERM)
        _ = try await worker.wait()
    }

    @Test("a batch whose name is misspelt is not said to be cancelled") func unknown() async throws {
        let bench = try await CommandBench()
        let typo = try await bench.haul("cancel", "--batch", "nigth", "--yes")
        #expect(typo.status == 1 && typo.out.isEmpty && typo.err.contains("no batch nigth is known"), "\(typo)")
        #expect(try await bench.server.cli("EXISTS", "haul:{default}:want", "haul:{default}:changes") == "0")
        let early = try await bench.haul("cancel", "--batch", "nigth", "--yes", "--wait-for")
        #expect(early.status == 0 && early.out == "batch nigth  cancel requested\n", "\(early)")
        // No worker has counted it yet.
        #expect(try await bench.haul("push", "http://h/1", "--batch", "night").status == 0)
        let waiting = try await bench.haul("pause", "--batch", "night")
        #expect(waiting.status == 0 && waiting.out == "batch night  pause requested\n", "\(waiting)")
    }
}
