import Foundation
import Glibc
import HaulExecutors
import HaulMetrics
import HaulTestSupport
import Testing

@testable import HaulWorker

@Suite struct HealthTests {
    private func status(_ worker: Worker, _ path: String) async -> Int {
        await worker.page.respond(to: path)?.status ?? 0
    }

    @Test("a worker is ready while Redis answers, and healthy also without Redis") func ready() async throws {
        let fleet = try await Fleet()
        let worker = try fleet.worker("w")
        #expect(await status(worker, "/healthz") == 200)
        #expect(await status(worker, "/readyz") == 503)
        let running = Task { try await worker.run() }
        try await eventually { await status(worker, "/readyz") == 200 }
        #expect(await worker.page.respond(to: "/readyz")?.text == "ok\n")
        #expect(await worker.page.respond(to: "/elsewhere")?.status == nil)

        fleet.server.signal(SIGKILL)
        try await eventually("the worker to be not ready without Redis", within: .seconds(30)) {
            await status(worker, "/readyz") == 503
        }
        #expect(await worker.page.respond(to: "/readyz")?.text == "Redis does not answer for the queue default\n")
        // The process itself is well, and a restart would not help.
        #expect(await status(worker, "/healthz") == 200)
        running.cancel()
        try await running.value
        #expect(await worker.page.respond(to: "/readyz")?.text == "the worker is ending\n")
    }

    @Test("a worker whose store is gone is not ready, even if no job has noticed it") func store() async throws {
        let fleet = try await Fleet()
        let worker = try fleet.worker("w")
        let running = Task { try await worker.run() }
        try await eventually { await status(worker, "/readyz") == 200 }
        try FileManager.default.removeItem(atPath: fleet.root.path)
        try await eventually("the worker to be not ready without its store") { await status(worker, "/readyz") == 503 }
        let response = try #require(await worker.page.respond(to: "/readyz"))
        #expect(response.text.contains("the store cannot be used"), "\(response.text)")
        running.cancel()
        try await running.value
    }

    @Test("a query that hangs has no value after its time limit, and runs only once meanwhile")
    func hanging() async throws {
        let (asked, latch) = (Shared(0), Latch())
        let query = SharedQuery(limit: .milliseconds(50)) {
            asked.change { $0 += 1 }
            await BlockingPool(name: "hang", limit: 1).run { latch.wait() }
            return 7
        }
        #expect(await query.value() == nil)
        #expect(await query.value() == nil)
        #expect(asked.value == 1)
        latch.open()
        try await eventually { await query.value() == 7 }
    }

    @Test("the end of an outage is reported once, when all operations work again") func back() {
        var outage = Outage()
        let now = ContinuousClock.now
        #expect(outage.recordSuccess(of: "one", at: now) == nil)
        outage.recordFailure(of: "one", at: now)
        outage.recordFailure(of: "two", at: now + .seconds(1))
        outage.recordFailure(of: "one", at: now + .seconds(2))
        #expect(outage.recordSuccess(of: "one", at: now + .seconds(3)) == nil)
        #expect(outage.recordSuccess(of: "two", at: now + .seconds(4)) == .seconds(4))
        #expect(outage.recordSuccess(of: "two", at: now + .seconds(5)) == nil)
    }
}
