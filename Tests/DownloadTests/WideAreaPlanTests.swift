import HaulContract
import HaulHTTP
import HaulTestSupport
import Testing

@testable import HaulActivities

/// A plan on a path with a round trip. Responses arrive late, and each one begins slowly and doubles with each round
/// trip.
private struct WideAreaFetch {
    var plan: SegmentPlan
    let roundTrip: Double
    /// The highest rate of one connection, and of all together: bytes per second.
    var most = 10e6
    var link = 100e6
    var refuses: (Int) -> Bool = { _ in false }
    private(set) var live: [Int: Response] = [:]
    private var asked: [(id: Int, range: Range<Int64>, due: Double, number: Int)] = []
    private(set) var fetched = ByteIntervals()
    private(set) var bytes: Int64 = 0
    /// Bytes that the servers sent, including those in flight beyond a new end when the server learned of the end.
    private(set) var sent: Int64 = 0
    private(set) var opened = 1
    private(set) var refused = 0
    private(set) var maxAtOnce = 1
    private(set) var cut = 0
    private(set) var now = 0.0

    struct Response {
        let start: Int64
        var position: Double
        var end: Int64
        let asked: Int64
        let since: Double
        /// Bytes per second.
        var rate = 0.0
        /// Set when the response was shortened or dropped: the offset up to which the server may have sent.
        var reported: Int64?
    }

    init(_ total: Int64, roundTrip: Double, isLossy: Bool = false, limit: Int = 16) {
        plan = SegmentPlan(missing: [0..<total], limit: limit)
        self.roundTrip = roundTrip
        live[plan.adopt(0..<total, now: 0)] = Response(start: 0, position: 0, end: total, asked: total, since: 0)
        plan.recordPath(TransferPath(roundTrip: roundTrip, isLossy: isLossy))
    }

    mutating func run(within limit: Double, step: Double = 0.01) -> Bool {
        while !plan.isDone {
            perform(plan.actions(now: now))
            now += step
            if now > limit { return false }
            answer()
            maxAtOnce = max(maxAtOnce, live.count)
            let wishes = live.mapValues { min(most, 14_600 / roundTrip * exp2((now - $0.since) / roundTrip)) }
            let share = min(1, link / max(1, wishes.values.reduce(0, +)))
            for (id, wish) in wishes {
                guard var one = live[id] else { continue }
                one.rate = wish * share
                one.position = min(one.position + one.rate * step, Double(one.end))
                live[id] = one
                // The window is twice the bytes of a round trip, as on Linux.
                let seen = TransferPath(
                    roundTrip: roundTrip, delay: roundTrip * (share < 1 ? 2 : 1),
                    window: Int64(2 * one.rate * roundTrip), isLossy: false)
                plan.recordPath(seen, by: id, now: now)
                plan.sample(id, received: Int64(one.position) - one.start, now: now)
            }
            for id in live.keys.sorted() {
                guard let one = live[id], Int64(one.position) >= one.end else { continue }
                perform(plan.ended(id, at: stop(id), now: now))
            }
        }
        return true
    }

    private mutating func stop(_ id: Int) -> Int64 {
        let one = live.removeValue(forKey: id)!
        let position = max(one.start, Int64(one.position))
        fetched.insert(one.start..<position)
        bytes += position - one.start
        sent += max(position, one.reported ?? position) - one.start
        return position
    }

    private mutating func answer() {
        let due = asked.filter { $0.due <= now }
        asked.removeAll { $0.due <= now }
        for one in due where plan.connections[one.id] != nil {
            guard !refuses(one.number) else {
                refused += 1
                plan.refused(one.id, for: 4, now: now)
                continue
            }
            live[one.id] = Response(
                start: one.range.lowerBound, position: Double(one.range.lowerBound), end: one.range.upperBound,
                asked: one.range.upperBound, since: now)
            perform(plan.opened(one.id, length: Int64(one.range.count), now: now))
        }
    }

    private mutating func perform(_ actions: [SegmentPlan.Action]) {
        for action in actions {
            switch action {
            case .open(let id, let range):
                opened += 1
                // The second request may get its response before the first one.
                let trips = Double(2 + opened % 3)
                asked.append((id, range, now + trips * roundTrip, opened))
            case .shorten(let id, let end):
                cut += 1
                guard let one = live[id] else { continue }
                live[id]!.end = max(end, Int64(one.position))
                // Bytes in flight cannot be recalled. The TCP window keeps the server from sending more.
                let underWay = min(one.reported ?? one.asked, Int64(one.position + one.rate * roundTrip))
                live[id]!.reported = max(live[id]!.end, underWay)
            case .drop(let id):
                asked.removeAll { $0.id == id }
                guard let one = live[id] else { continue }
                // At least the first ten TCP segments are in flight.
                live[id]!.reported = min(one.asked, Int64(one.position + max(14_600, one.rate * roundTrip)))
                _ = stop(id)
            }
        }
    }
}

private func exp2(_ value: Double) -> Double {
    var result = 1.0
    for _ in 0..<max(0, Int(value)) { result *= 2 }
    return result * (1 + value - value.rounded(.down))
}

/// On a long path slow start dominates, and connections are worth keeping.
@Suite struct WideAreaPlanTests {
    private static let path = TransferPath(roundTrip: 0.1, isLossy: false)

    private func opens(_ actions: [SegmentPlan.Action]) -> [(id: Int, range: Range<Int64>)] {
        actions.compactMap { if case .open(let id, let range) = $0 { (id, range) } else { nil } }
    }

    /// The first three connections with which a long path is shared.
    private func asked(of plan: inout SegmentPlan) -> [(id: Int, range: Range<Int64>)] {
        var parts: [(id: Int, range: Range<Int64>)] = []
        for step in 0..<3 { parts += opens(plan.actions(now: 0.013 * Double(step))) }
        return parts
    }

    @Test("a long path gets seven more connections within a round trip, and the first one keeps most bytes")
    func atOnce() {
        var plan = SegmentPlan(missing: [0..<200_000_000], limit: 16)
        let first = plan.adopt(0..<200_000_000, now: 0)
        plan.recordPath(Self.path)
        var parts = opens(plan.actions(now: 0))
        #expect(parts.count == 1)
        while parts.count < 7, let next = plan.nextDecision, next < 0.1 { parts += opens(plan.actions(now: next)) }
        #expect(parts.count == 7, "each is opened later than the last, without waiting for its response")
        let early = plan.actions(now: 0.1)
        #expect(early.isEmpty, "none is opened before a response")
        #expect(ByteIntervals(parts.map(\.range)).intervals.count == 1)
        #expect(parts.first?.range.upperBound == 200_000_000)
        for part in parts { _ = plan.opened(part.id, length: Int64(part.range.count), now: 0.2) }
        #expect(plan.connections[first]!.end > 150_000_000)
        var later: [(id: Int, range: Range<Int64>)] = []
        for step in 0..<10 { later += opens(plan.actions(now: 0.2 + 0.013 * Double(step))) }
        #expect(later.count == 8, "as many more as there are already")
    }

    @Test(
        "after a short slow start more connections join, but none once a queue has built up",
        arguments: [false, true])
    func climb(queues: Bool) {
        var plan = SegmentPlan(missing: [0..<200_000_000], limit: 16)
        let first = plan.adopt(0..<200_000_000, now: 0)
        let path = TransferPath(roundTrip: 0.02, isLossy: false)
        plan.recordPath(path)
        let parts = opens(plan.actions(now: 0))
        #expect(parts.count == 3)
        for part in parts { _ = plan.opened(part.id, length: Int64(part.range.count), now: 0.04) }
        let early = plan.actions(now: 0.1)
        #expect(early.isEmpty)
        plan.recordPath(TransferPath(roundTrip: 0.02, delay: queues ? 0.04 : 0.02, isLossy: false), by: first)
        let later = opens(plan.actions(now: 0.3))
        #expect(later.count == (queues ? 0 : 4))
    }

    @Test("bytes that a server may have sent already stay with its connection") func reported() {
        var plan = SegmentPlan(missing: [0..<20_000_000], limit: 4)
        let first = plan.adopt(0..<20_000_000, now: 0)
        plan.recordPath(Self.path)
        let parts = asked(of: &plan)
        for part in parts { _ = plan.opened(part.id, length: Int64(part.range.count), now: 0.2) }
        plan.sample(first, received: 100_000, now: 0.3)
        plan.sample(first, received: 8_000_000, now: 0.9)
        let window = TransferPath(roundTrip: 0.1, delay: 0.1, window: 6_000_000, isLossy: false)
        plan.recordPath(window, by: first, now: 0.9)
        for part in parts { _ = plan.ended(part.id, at: part.range.upperBound, now: 0.9) }
        let more = opens(plan.actions(now: 0.9))
        #expect(more.isEmpty, "a growing window doubles before the response arrives")
    }

    @Test(
        "hardly any byte arrives twice",
        arguments: [
            (20, 0.1, 40e6, 125e6), (50, 0.1, 40e6, 125e6), (500, 0.1, 25e6, 125e6), (20, 0.2, 100e6, 6.25e6),
            (100, 0.02, 100e6, 62e6), (100, 0.02, 2e6, 62e6),
        ])
    func twice(megabytes: Int64, roundTrip: Double, most: Double, link: Double) {
        var fetch = WideAreaFetch(megabytes * 1_000_000, roundTrip: roundTrip)
        (fetch.most, fetch.link) = (most, link)
        let isDone = fetch.run(within: 100, step: roundTrip / 20)
        #expect(isDone)
        #expect(Double(fetch.sent) <= 1.03e6 * Double(megabytes), "\(fetch.sent)")
    }

    @Test("a small remainder gets few connections, but many if packets are lost", arguments: [false, true])
    func few(isLossy: Bool) {
        var fetch = WideAreaFetch(20_000_000, roundTrip: 0.1, isLossy: isLossy)
        if isLossy { fetch.most = 3e5 }
        let isDone = fetch.run(within: 60)
        #expect(isDone)
        #expect(isLossy ? fetch.maxAtOnce > 8 : (3...5).contains(fetch.maxAtOnce), "\(fetch.maxAtOnce)")
    }

    @Test("a near server gets no extra connection before its speed is known") func near() {
        var plan = SegmentPlan(missing: [0..<200_000_000], limit: 16)
        _ = plan.adopt(0..<200_000_000, now: 0)
        plan.recordPath(TransferPath(roundTrip: 0.001, isLossy: false))
        let actions = plan.actions(now: 0)
        #expect(actions.isEmpty)
    }

    @Test("responses in any order, some of them refusals, leave no byte without an owner") func anyOrder() {
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            for refused in 0..<8 {
                var plan = SegmentPlan(missing: [0..<200_000_000], limit: 16)
                let first = plan.adopt(0..<200_000_000, now: 0)
                plan.recordPath(Self.path)
                let parts = asked(of: &plan)
                var owned = ByteIntervals()
                for index in order {
                    let part = parts[index]
                    if refused & 1 << index != 0 {
                        plan.refused(part.id, for: 4, now: 0.2)
                    } else {
                        _ = plan.opened(part.id, length: Int64(part.range.count), now: 0.2)
                        owned.insert(part.range)
                    }
                }
                owned.insert(0..<plan.connections[first]!.end)
                for waiting in plan.unassigned.intervals {
                    #expect(!owned.contains(waiting))
                    owned.insert(waiting)
                }
                #expect(owned.intervals == [0..<200_000_000], "\(order) \(refused)")
            }
        }
    }

    @Test("a host that accepts two connections refuses three at most, and both stay in use") func two() {
        var fetch = WideAreaFetch(400_000_000, roundTrip: 0.05)
        fetch.most = 5e6
        fetch.refuses = { $0 > 2 && $0 < 5 }
        let isDone = fetch.run(within: 100)
        #expect(isDone)
        #expect(fetch.fetched.contains(0..<400_000_000))
        // Two connections take 40 s.
        #expect(fetch.refused <= 3 && fetch.now < 42, "\(fetch.refused) \(fetch.now)")
    }

    @Test("responses end by themselves, and few are cut off") func kept() {
        var fetch = WideAreaFetch(500_000_000, roundTrip: 0.1)
        let isDone = fetch.run(within: 60)
        #expect(isDone)
        #expect(fetch.fetched.intervals == [0..<500_000_000])
        // The time at the full rate of the link, plus slow start and the last round trips.
        #expect(fetch.now < 8, "\(fetch.now)")
        #expect(fetch.opened < 150, "\(fetch.opened)")
    }

    @Test("a part that its owner has nearly fetched when the response arrives stays with the owner") func tooLate() {
        var plan = SegmentPlan(missing: [0..<20_000_000], limit: 2)
        let first = plan.adopt(0..<20_000_000, now: 0)
        plan.recordPath(Self.path)
        let parts = opens(plan.actions(now: 0))
        #expect(parts.count == 1)
        plan.sample(first, received: parts[0].range.lowerBound - 1_000_000, now: 0.2)
        plan.sample(first, received: parts[0].range.lowerBound - 100_000, now: 0.3)
        let window = TransferPath(roundTrip: 0.1, delay: 0.1, window: 12_000_000, isLossy: false)
        plan.recordPath(window, by: first, now: 0.3)
        let answer = plan.opened(parts[0].id, length: Int64(parts[0].range.count), now: 0.3)
        #expect(answer == [.drop(id: parts[0].id)], "6 MB of the part are in flight already")
        #expect(plan.connections.keys.sorted() == [first] && plan.connections[first]!.end == 20_000_000)
    }

    @Test("on any path all bytes are fetched, few of them twice, and the connection limit holds")
    func anyWay() {
        let seed = UInt64.random(in: 0...(.max))
        var generator = SeededGenerator(state: seed)
        for way in 0..<60 {
            let limit = Int.random(in: 1...16, using: &generator)
            let total = Int64.random(in: 1...300_000_000, using: &generator)
            var fetch = WideAreaFetch(
                total, roundTrip: .random(in: 0.005...0.3, using: &generator), isLossy: .random(using: &generator),
                limit: limit)
            fetch.most = .random(in: 1e5...5e7, using: &generator)
            fetch.link = .random(in: 1e6...1e8, using: &generator)
            let isDone = fetch.run(within: 10_000, step: 0.02)
            let name = "seed \(seed), way \(way): limit \(limit), total \(total)"
            #expect(isDone, "\(name)")
            #expect(fetch.fetched.intervals == [0..<total], "\(name)")
            #expect(Double(fetch.sent) <= 1.03 * Double(total) + 3_000_000, "\(name), sent \(fetch.sent)")
            #expect(fetch.maxAtOnce <= limit, "\(name)")
        }
    }
}
