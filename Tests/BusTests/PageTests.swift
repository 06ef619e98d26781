import Foundation
import HaulContract
import HaulTestSupport
import Testing

@testable import HaulBus

/// The samples in docs/ match what the product accepts and publishes.
@Suite struct PageTests {
    @Test("every sample of an element is accepted, and together they have every field") func elements() async throws {
        let f = try await QueueFixture()
        let samples = try Pages.blocks("json element")
        var names: Set<String> = []
        for sample in samples {
            let json = try JSON(Array(sample.utf8))
            names.formUnion((json.members ?? []).map(\.name))
            if json["url"] != nil || json["urls"] != nil { #expect(try Job(json: json).unknownFields == []) }
            try await f.push(sample)
        }
        // All other samples have a deadline, which has passed by now. The continuation is older than the end of its
        // job.
        for id in ["film-8", "send-8", "send-9", "send-10"] { #expect(try await f.claim()?.run.id == id) }
        #expect(try await f.claim() == nil)
        #expect(try await f.queue.rejected(limit: 9) == [])
        // `t` is Redis' own ticket.
        #expect(names == Set(JobField.byName.keys).subtracting(["t"]))
    }

    @Test("the pages have a sample of every event, in the order of their positions") func events() throws {
        let lines = try Pages.blocks("json events").flatMap { $0.split(separator: "\n") }
        let events = lines.compactMap { Event(Array($0.utf8)) }
        #expect(events.count == lines.count)
        #expect(
            Set(events.map(\.name)) == [
                "started", "resumed", "progress", "restarted", "waiting", "retrying", "queued", "requeued", "warning",
                "duplicate", "paused", "completed", "failed", "cancelled", "rejected", "batch_ended",
            ])
        let positions = events.compactMap(\.position)
        #expect(positions == positions.sorted() && positions.count == events.count - 1)
    }
}
