import HaulBus
import HaulContract
import HaulMetrics
import HaulTestSupport
import Testing

@testable import HaulWorker

/// A worker's metrics, compared with what is known to have happened.
@Suite struct MetricsTests {
    /// The samples of a page by their names and labels.
    private struct Samples {
        let values: [String: Double]

        init(_ worker: Worker) async throws {
            let page = try #require(await worker.page.respond(to: "/metrics"))
            var values: [String: Double] = [:]
            for line in page.text.split(separator: "\n") where !line.hasPrefix("#") {
                let space = line.lastIndex(of: " ")!
                values[String(line[..<space])] = Double(line[line.index(after: space)...])
            }
            self.values = values
        }

        func callAsFunction(_ name: String) -> Double { values[name] ?? 0 }

        func ends(_ result: String, _ code: String = "") -> Double {
            self("haul_runs_ended_total{queue=\"default\",result=\"\(result)\",code=\"\(code)\"}")
        }
    }

    private static let queue = "{queue=\"default\"}"

    @Test("each metric shows what the load did") func load() async throws {
        let fleet = try await Fleet()
        let asked = Shared(0)
        let bytes = FileBytes(seed: 1, count: 100_000)
        let origin = try OriginServer { request in
            switch request.path {
            case "/missing": return OriginReply(404)
            case "/flaky":
                let isFirst = asked.change { count in
                    count += 1
                    return count == 1
                }
                return isFirst ? OriginReply(500, headers: [("Retry-After", "0")]) : .file(bytes, to: request)
            default: return .file(bytes, to: request)
            }
        }
        let worker = try fleet.worker("w") { $0.slots = 4 }
        let running = Task { try await worker.run() }
        let files = (0..<5).map { "file\($0)" }
        for id in files { try await fleet.push(#"{"url":"\#(origin.url("/" + id))","id":"\#(id)"}"#) }
        try await fleet.push(#"{"url":"\#(origin.url("/missing"))","id":"missing"}"#)
        try await fleet.push(#"{"url":"\#(origin.url("/flaky"))","id":"flaky"}"#)
        for id in files + ["flaky"] { try await fleet.wait(id, for: .completed) }
        try await fleet.wait("missing", for: .failed)
        // A file that is there already is pushed again.
        try await fleet.push(#"{"url":"\#(origin.url("/file0"))","id":"file0","fresh_for":3600}"#)
        try await eventually { try await Samples(worker).ends("unchanged") == 1 }

        let samples = try await Samples(worker)
        #expect(samples("haul_claims_total\(Self.queue)") == 9)
        #expect(samples.ends("completed") == 6)
        #expect(samples.ends("failed", "http_404") == 1)
        #expect(samples.ends("retried", "http_500") == 1)
        #expect(samples("haul_received_bytes_total\(Self.queue)") == 600_000)
        for zero in ["refetched_bytes", "fenced", "restarts", "resumes", "takeovers", "redis_failures"] {
            #expect(samples.values["haul_\(zero)_total\(Self.queue)"] == 0, "\(zero)")
        }
        #expect(samples("haul_run_duration_seconds_count\(Self.queue)") == 9)
        #expect(samples("haul_settle_duration_seconds_count\(Self.queue)") == 9)
        #expect(samples("haul_commit_duration_seconds_count") == 6)
        #expect(samples("haul_slots") == 4)
        #expect(samples.values["haul_slots_taken"] == 0)
        #expect(samples("haul_accepting") == 1)
        #expect(samples.values["haul_quiet"] == 0)
        #expect(samples("haul_redis_connects_total") == 2)
        #expect(samples("haul_redis_round_trips_total") >= 9)
        #expect(samples("haul_store_free_bytes") > 0)
        #expect(samples("haul_tick_duration_seconds_count\(Self.queue)") >= 1)
        #expect(samples("haul_loop_delay_seconds_count{loop=\"transfers\"}") >= 1)
        try await Promtool.check(try #require(await worker.page.respond(to: "/metrics")).text)
        running.cancel()
        try await running.value
        #expect(try await Samples(worker).values["haul_accepting"] == 0)
    }

    @Test("bytes that are dropped because the file has changed are counted as refetched")
    func refetched() async throws {
        let fleet = try await Fleet()
        let (old, new) = (FileBytes(seed: 1, count: 3_000_000), FileBytes(seed: 2, count: 2_000_000))
        let latch = Latch()
        let isNew = Shared(false)
        let origin = try OriginServer { request in
            guard !isNew.value else { return .file(new, etag: "\"new\"", to: request) }
            var reply = OriginReply.file(old, etag: "\"old\"", to: request)
            reply.hold = (1_500_000, latch)
            return reply
        }
        let worker = try fleet.worker("w")
        let running = Task { try await worker.run() }
        try await fleet.push(#"{"url":"\#(origin.url("/file"))","id":"file","connections":1}"#)
        try await eventually { try await fleet.server.cli("HLEN", fleet.queue.keys.offsets("file")) != "0" }
        try await fleet.queue.request(.paused, of: ["file"])
        try await fleet.wait("file", for: .paused)
        isNew.value = true
        latch.open()
        try await fleet.push(#"{"id":"file"}"#)
        try await fleet.wait("file", for: .completed)
        try await eventually { try await Samples(worker).ends("completed") == 1 }
        let samples = try await Samples(worker)
        #expect(samples("haul_restarts_total\(Self.queue)") == 1)
        #expect(samples.ends("paused") == 1)
        let refetched = samples("haul_refetched_bytes_total\(Self.queue)")
        #expect(refetched > 0 && refetched <= 2_000_000, "\(refetched)")
        running.cancel()
        try await running.value
    }

    @Test("error codes get at most 100 labels, and the others are counted together") func labels() async throws {
        let registry = MetricsRegistry(Metric.workerMetrics)
        let metrics = QueueMetrics(queue: "default", in: registry)
        for status in 1...500 { metrics.ended("failed", code: .http(status)) }
        let text = await registry.exposition().text
        #expect(text.split(separator: "\n").count { $0.hasPrefix("haul_runs_ended_total") } == 101)
        #expect(text.contains("code=\"other\"} 400\n"))
    }
}
