import Glibc
import HaulTestSupport
import Testing

@Suite("Groups in the command") struct GroupCommandTests {
    @Test("jobs are pushed, listed, counted and limited by their group") func groups() async throws {
        let bench = try await CommandBench()
        let refused = try await bench.haul("queue", "set", "limits.group:acme", #"{"connections":2}"#)
        #expect(
            refused.status == 2 && refused.err.contains(#"must be a JSON object like {"running":4"#), "\(refused.err)")
        #expect(try await bench.haul("queue", "set", "limits.group:a b", #"{"running":2}"#).status == 2)
        let set = try await bench.haul("queue", "set", "limits.group:acme", #"{"running":0}"#)
        #expect(set.status == 0, "\(set.err)")
        #expect(try await bench.haul("queue", "show").out.contains("limits.group:acme"))
        for (id, group) in [("a1", "acme"), ("a2", "acme"), ("b1", "bolt")] {
            let pushed = try await bench.haul("push", "http://127.0.0.1:1/\(id)", "--id", id, "--group", group)
            #expect(pushed.status == 0, "\(pushed.err)")
        }
        let worker = try bench.worker("w")
        try await eventually("b1 to be tried", within: .seconds(20)) {
            try await bench.server.cli("HGET", "haul:{default}:job:b1", "attempt") == "1"
        }
        let list = try await bench.haul("list", "--group", "acme", "--state", "queued")
        #expect(list.out.contains("a1") && list.out.contains("a2") && !list.out.contains("b1"), "\(list.out)")
        let counts = try await bench.haul("list", "--by", "group", "--state", "queued", "--json")
        #expect(counts.out.contains(#"{"group":"acme","count":2"#), "\(counts.out)")
        let shown = try await bench.haul("show", "a1")
        #expect(shown.out.contains("a limit of the group acme") && shown.out.contains("group  acme"), "\(shown.out)")
        #expect(try await bench.haul("stats").out.contains("2 jobs wait for a limit of the group acme"))
        #expect(try await bench.haul("stats", "--json").out.contains(#""waiting_for_groups":{"acme":2}"#))
        #expect(try await bench.haul("check").out == "all is in order\n")
        #expect(try await bench.haul("cancel", "--group", "acme", "--state", "queued", "--yes").status == 0)
        try await eventually("both to be cancelled, although their group may not run", within: .seconds(20)) {
            try await bench.server.cli("ZCARD", "haul:{default}:cancelled") == "2"
        }
        worker.kill(SIGTERM)
        _ = try await worker.wait()
    }
}
