import Foundation
import HaulClient
import HaulTestSupport
import Testing

@Suite(.timeLimit(.minutes(2))) struct KeptEventsTests {
    private let bench: ClientBench

    init() async throws { bench = try await ClientBench(["--appendonly", "yes", "--appendfsync", "always"]) }

    private func keep(_ id: String, at time: Int, in queue: String = "default") async throws {
        let members = #""epoch":1,"seq":\#(time),"at":\#(time)"#
        let event = #"{"v":1,"event":"completed","id":"\#(id)","queue":"default",\#(members)}"#
        try await bench.server.cli(
            "XADD", "haul:{\(queue)}:log", "\(time)-0", "event", "completed", "id", id, "data", event)
    }

    private func setStream(_ queue: String = "default") async throws {
        try await bench.server.cli("HSET", "haul:{\(queue)}:settings", "event_stream", "1000")
    }

    private func next(_ updates: inout KeptEvents.AsyncIterator) async throws -> KeptUpdate {
        try #require(try await updates.next())
    }

    @Test("what a queue has kept is read on behind a stored position, and followed over a restart of Redis")
    func resumption() async throws {
        try await setStream()
        for (id, time) in [("a", 1000), ("b", 2000), ("c", 3000)] { try await keep(id, at: time) }
        let queue = try bench.queue()
        let kept = try await collect(queue.keptEvents(following: false))
        #expect(kept.map { $0.event?.id } == ["a", "b", "c"])
        // Of the time since 1001 all is kept, and of the time before 1000 nothing is.
        let since = try await collect(queue.keptEvents(from: .time(1001), following: false))
        #expect(since.map { $0.event?.id } == ["b", "c"])
        let earlier = try await collect(queue.keptEvents(from: .time(500), following: false))
        #expect(earlier.map { $0.event?.id } == [nil, "a", "b", "c"])
        // The position is stored as a text.
        let stored = try JSONEncoder().encode([kept[1].position])
        let position = try #require(try JSONDecoder().decode([KeptEvents.Position].self, from: stored).first)
        #expect(position == KeptEvents.Position("2000-0") && KeptEvents.Position("2000-x") == nil)
        var updates = queue.keptEvents(from: .after(position)).makeAsyncIterator()
        #expect(try await next(&updates).event?.id == "c")
        try await bench.server.restart(by: SIGKILL)
        try await keep("d", at: 4000)
        #expect(try await next(&updates).event?.id == "d")
        await queue.close()
        await #expect { try await updates.next() } throws: { ($0 as? HaulError)?.code == .closed }
    }

    @Test("a service hears that events behind its position are no longer kept") func gap() async throws {
        try await setStream()
        for (id, time) in [("a", 1000), ("b", 2000), ("c", 3000)] { try await keep(id, at: time) }
        try await bench.server.cli("XTRIM", "haul:{default}:log", "MINID", "3000-0")
        let queue = try bench.queue()
        let position = try #require(KeptEvents.Position("1000-0"))
        let updates = try await collect(queue.keptEvents(from: .after(position), following: false))
        #expect(updates.map { $0.event?.id } == [nil, "c"] && updates.first == .gap(position))
        let last = try #require(updates.last?.position)
        #expect(try await collect(queue.keptEvents(from: .after(last), following: false)).isEmpty)
        await queue.close()
    }

    @Test("a queue that keeps no events says so, and does not wait for ever") func off() async throws {
        let queue = try bench.queue()
        for isFollowing in [true, false] {
            await #expect {
                for try await _ in queue.keptEvents(following: isFollowing) {}
            } throws: { ($0 as? HaulError)?.code == .eventsNotKept }
        }
        await queue.close()
    }

    @Test("the events of all partitions come, and one position goes on behind each of them")
    func partitions() async throws {
        let names = (0..<3).map { "films#\($0)of3" }
        for name in names { try await setStream(name) }
        let queue = try bench.queue("films#3")
        try await keep("a", at: 1000, in: names[0])
        try await keep("b", at: 1500, in: names[1])
        var updates = queue.keptEvents().makeAsyncIterator()
        var found = [try await next(&updates)]
        found.append(try await next(&updates))
        #expect(Set(found.compactMap { $0.event?.id }) == ["a", "b"])
        try await keep("c", at: 1200, in: names[2])
        let third = try await next(&updates)
        #expect(third.event?.id == "c" && "\(third.position)" == "1000-0,1500-0,1200-0")
        try await keep("d", at: 2000, in: names[0])
        let rest = try await collect(queue.keptEvents(from: .after(third.position), following: false))
        #expect(rest.map { $0.event?.id } == ["d"])
        await queue.close()
    }
}
