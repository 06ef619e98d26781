import HaulRedis
import HaulTestSupport

@testable import HaulBus

// The event stream.

extension Simulation {
    /// Checks that the stream has got each event that was published since the last check, once and in the same order.
    mutating func checkStream() async throws {
        let mark = Token.make()
        try await redis.send(Command("PUBLISH", queue.keys.events("mark"), mark))
        let events = events
        try await eventually("all events to be received") { events.hasReceived(mark) }
        let published = events.takePublished().map { String(decoding: $0, as: UTF8.self) }
        let entries = try await redis.send(Command("XRANGE", queue.keys.log, "(" + comparedEntry, "+")).array ?? []
        let kept = entries.compactMap { $0.array?.last?.dictionary["data"] }
        if kept != published {
            let place = zip(kept, published).prefix { $0 == $1 }.count
            let texts = [published, kept].map { $0.dropFirst(place).first ?? "nothing" }
            ledger.recordViolation(
                "\(published.count) events were published, and the stream got \(kept.count): \(texts[0]), and in the stream \(texts[1])"
            )
        }
        record("kept events", kept.count)
        comparedEntry = entries.last?.array?.first?.string ?? comparedEntry
    }

    /// Takes the stream as it is for compared. Redis has lost its newest entries.
    mutating func skipStream() async throws {
        let last = try await redis.send(Command("XREVRANGE", queue.keys.log, "+", "-", "COUNT", 1)).array?.first
        comparedEntry = last?.array?.first?.string ?? "0-0"
    }
}
