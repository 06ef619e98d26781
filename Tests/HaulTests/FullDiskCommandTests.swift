import Glibc
import HaulTestSupport
import Testing

@Suite("Workers whose disks are full, in the command") struct FullDiskCommandTests {
    @Test("stats, its bottlenecks and the list of workers say that no worker takes jobs") func full() async throws {
        let bench = try await CommandBench()
        // No worker runs the job, which would make it a scheduled one.
        _ = try await bench.server.cli("HSET", "haul:{default}:limits", "slow.example", #"{"connections":0}"#)
        _ = try await bench.server.cli(
            "LPUSH", "haul:{default}:jobs", #"{"id":"k","url":"http://slow.example/k"}"#)
        let worker = try bench.worker("w", "--keep-free", "1000000000000000")
        try await eventually("the worker to report its space", within: .seconds(20)) {
            try await bench.server.cli("HGET", "haul:{default}:worker:w", "free") == "0"
        }
        let stats = try await bench.haul("stats")
        #expect(stats.out.contains("no worker takes jobs, because their disks have no space"), "\(stats.out)")
        let bottlenecks = try await bench.haul("stats", "--bottlenecks")
        #expect(bottlenecks.out.contains("there is no space on disk"), "\(bottlenecks.out) \(bottlenecks.err)")
        let workers = try await bench.haul("workers")
        #expect(workers.status == 0 && workers.err.contains("w takes no jobs, because its disk"), "\(workers.err)")
        worker.kill(SIGTERM)
        _ = try await worker.wait()
    }
}
