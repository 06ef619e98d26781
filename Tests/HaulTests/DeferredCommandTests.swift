import Glibc
import HaulTestSupport
import Testing

@Suite("Jobs that wait for a limited host, in the command") struct DeferredCommandTests {
    @Test("they are counted, listed and shown with the cause of their wait, and a cancel takes effect at once")
    func deferred() async throws {
        let bench = try await CommandBench()
        _ = try await bench.server.cli("HSET", "haul:{default}:limits", "slow.example", #"{"connections":0}"#)
        let worker = try bench.worker("w")
        for id in ["k1", "k2", "k3"] {
            _ = try await bench.server.cli(
                "LPUSH", "haul:{default}:jobs", #"{"id":"\#(id)","url":"http://slow.example/\#(id)"}"#)
        }
        try await eventually("the jobs to wait for their host", within: .seconds(20)) {
            try await bench.server.cli("LLEN", "haul:{default}:deferred_host:slow.example") == "3"
        }
        let cause = "host slow.example (limit connections 0)"
        let stats = try await bench.haul("stats")
        #expect(stats.out.contains("3 jobs wait for \(cause)"), "\(stats.out)")
        #expect(try await bench.haul("stats", "--json").out.contains(#""waiting_for_hosts":{"slow.example":3}"#))
        let list = try await bench.haul("list", "--state", "queued")
        #expect(list.status == 0 && list.out.contains("  \(cause)"), "\(list.out) \(list.err)")
        let shown = try await bench.haul("show", "k1")
        #expect(shown.status == 0 && shown.out.contains("queued, waits for \(cause)"), "\(shown.out) \(shown.err)")
        #expect(try await bench.haul("check").out == "all is in order\n")
        #expect(try await bench.haul("cancel", "k1").status == 0)
        try await eventually("k1 to be cancelled", within: .seconds(20)) {
            try await bench.server.cli("HGET", "haul:{default}:job:k1", "state") == "cancelled"
        }
        #expect(try await bench.haul("cancel", "--all", "--yes").status == 0)
        try await eventually("nothing to wait any more", within: .seconds(20)) {
            try await bench.haul("stats", "--json").out.contains(#""queued":0"#)
        }
        #expect(try await bench.server.cli("ZCARD", "haul:{default}:cancelled") == "3")
        #expect(try await bench.haul("check").out == "all is in order\n")
        worker.kill(SIGTERM)
        _ = try await worker.wait()
    }
}
