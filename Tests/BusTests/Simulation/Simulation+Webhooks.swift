import HaulContract
import HaulRedis

@testable import HaulBus

// Webhooks: jobs that the functions push when others end.

extension Simulation {
    /// The member of an element that asks for webhooks; nil for a job whose ends are not reported. The id decides, so that
    /// all pushes of a job agree.
    static func notify(of id: String?) -> String? {
        guard let id, isReported(id) else { return nil }
        return #""notify":{"url":"http://h0/hook","secret":"s","events":["completed","failed"]}"#
    }

    private static func isReported(_ id: String) -> Bool {
        id.first == "j" && Int(id.dropFirst()).map { $0 % 4 == 0 } ?? false
    }

    /// Records the webhooks of the ends that were published since the last call. Each of them has to be done once, as if a
    /// producer had pushed it.
    mutating func recordWebhooks() async throws {
        let entries = try await redis.send(Command("XRANGE", queue.keys.log, "(" + ledger.reportedEntry, "+"))
        for entry in LoggedEvent.list(entries) {
            ledger.reportedEntry = entry.entry
            guard let event = Event(entry.text.utf8), Self.isReported(event.id), let position = event.position,
                let state = event.finalState, state != .cancelled
            else { continue }
            ledger.recordWebhook("\(event.id).\(state.rawValue)-\(position.epoch)-\(position.sequence)")
            record("webhooks")
        }
    }
}
