import HaulContract
import HaulHTTP
import HaulTestSupport
import Testing

@testable import HaulActivities

/// A plan on a way with a round trip: answers come late, and each response begins slowly and doubles with each round trip.
private struct FarFetch {
    var plan: SegmentPlan
    let roundTrip: Double
    /// What one connection reaches, and what all of them share: bytes per second.
    var most = 10e6
    var link = 100e6
    var refuses: (Int) -> Bool = { _ in false }
    private(set) var live: [Int: Response] = [:]
    private var asked: [(id: Int, range: Range<Int64>, due: Double, number: Int)] = []
    private(set) var fetched = ByteIntervals()
    private(set) var bytes: Int64 = 0
    /// What servers sent, with what was under way beyond an end when they heard of it.
    private(set) var sent: Int64 = 0
    private(set) var opened = 1
    private(set) var refused = 0
    private(set) var mostAtOnce = 1
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
        /// When it was cut, and how far the server may have sent by then.
        var told: Int64?
    }

    init(_ total: Int64, roundTrip: Double, isLossy: Bool = false, limit: Int = 16) {
        plan = SegmentPlan(missing: [0..<total], limit: limit)
        self.roundTrip = roundTrip
        live[plan.adopt(0..<total, now: 0)] = Response(start: 0, position: 0, end: total, asked: total, since: 0)
        plan.learned(TransferPath(roundTrip: roundTrip, isLossy: isLossy))
    }

    mutating func run(within limit: Double, step: Double = 0.01) -> Bool {
        while !plan.isDone {
            perform(plan.actions(now: now))
            now += step
            if now > limit { return false }
            answer()
            mostAtOnce = max(mostAtOnce, live.count)
            let wishes = live.mapValues { min(most, 14_600 / roundTrip * exp2((now - $0.since) / roundTrip)) }
            let share = min(1, link / max(1, wishes.values.reduce(0, +)))
            for (id, wish) in wishes {
                guard var one = live[id] else { continue }
                one.rate = wish * share
                one.position = min(one.position + one.rate * step, Double(one.end))
                live[id] = one
                // The window is twice what comes within a round trip, as Linux has it.
                let seen = TransferPath(
                    roundTrip: roundTrip, delay: roundTrip * (share < 1 ? 2 : 1),
                    window: Int64(2 * one.rate * roundTrip), isLossy: false)
                plan.learned(seen, by: id, now: now)
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
        sent += max(position, one.told ?? position) - one.start
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
                // The second question may be answered before the first.
                let trips = Double(2 + opened % 3)
                asked.append((id, range, now + trips * roundTrip, opened))
            case .shorten(let id, let end):
                cut += 1
                guard let one = live[id] else { continue }
                live[id]!.end = max(end, Int64(one.position))
                // What is under way cannot be called back; the window sees to it that no more comes.
                let underWay = min(one.told ?? one.asked, Int64(one.position + one.rate * roundTrip))
                live[id]!.told = max(live[id]!.end, underWay)
            case .drop(let id):
                asked.removeAll { $0.id == id }
                guard let one = live[id] else { continue }
                // Its first ten segments are under way at least.
                live[id]!.told = min(one.asked, Int64(one.position + max(14_600, one.rate * roundTrip)))
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

/// Where the way is far, slow start decides, and connections are worth keeping.
@Suite struct FarPlanTests {
    private static let path = TransferPath(roundTrip: 0.1, isLossy: false)

    private func opens(_ actions: [SegmentPlan.Action]) -> [(id: Int, range: Range<Int64>)] {
        actions.compactMap { if case .open(let id, let range) = $0 { (id, range) } else { nil } }
    }

    /// The first three that a distant way is shared with.
    private func asked(of plan: inout SegmentPlan) -> [(id: Int, range: Range<Int64>)] {
        var parts: [(id: Int, range: Range<Int64>)] = []
        for step in 0..<3 { parts += opens(plan.actions(now: 0.013 * Double(step))) }
        return parts
    }

    @Test("help is asked for with the first byte, from seven within a round trip, and the first response keeps most")
    func atOnce() {
        var plan = SegmentPlan(missing: [0..<200_000_000], limit: 16)
        let first = plan.adopt(0..<200_000_000, now: 0)
        plan.learned(Self.path)
        var parts = opens(plan.actions(now: 0))
        #expect(parts.count == 1)
        while parts.count < 7, let next = plan.nextAsk, next < 0.1 { parts += opens(plan.actions(now: next)) }
        #expect(parts.count == 7, "one after the other, but none waits for the answer to another")
        let early = plan.actions(now: 0.1)
        #expect(early.isEmpty, "none before one is answered")
        #expect(ByteIntervals(parts.map(\.range)).intervals.count == 1)
        #expect(parts.first?.range.upperBound == 200_000_000)
        for part in parts { _ = plan.opened(part.id, length: Int64(part.range.count), now: 0.2) }
        #expect(plan.connections[first]!.end > 150_000_000)
        var later: [(id: Int, range: Range<Int64>)] = []
        for step in 0..<10 { later += opens(plan.actions(now: 0.2 + 0.013 * Double(step))) }
        #expect(later.count == 8, "as many more as are there already")
    }

    @Test(
        "where slow start is short, more join only after it, and none once a queue has built up",
        arguments: [false, true])
    func climb(queues: Bool) {
        var plan = SegmentPlan(missing: [0..<200_000_000], limit: 16)
        let first = plan.adopt(0..<200_000_000, now: 0)
        let path = TransferPath(roundTrip: 0.02, isLossy: false)
        plan.learned(path)
        let parts = opens(plan.actions(now: 0))
        #expect(parts.count == 3)
        for part in parts { _ = plan.opened(part.id, length: Int64(part.range.count), now: 0.04) }
        let early = plan.actions(now: 0.1)
        #expect(early.isEmpty)
        plan.learned(TransferPath(roundTrip: 0.02, delay: queues ? 0.04 : 0.02, isLossy: false), by: first)
        let later = opens(plan.actions(now: 0.3))
        #expect(later.count == (queues ? 0 : 4))
    }

    @Test("what a server may have sent by now is left to it") func told() {
        var plan = SegmentPlan(missing: [0..<20_000_000], limit: 4)
        let first = plan.adopt(0..<20_000_000, now: 0)
        plan.learned(Self.path)
        let parts = asked(of: &plan)
        for part in parts { _ = plan.opened(part.id, length: Int64(part.range.count), now: 0.2) }
        plan.sample(first, received: 100_000, now: 0.3)
        plan.sample(first, received: 8_000_000, now: 0.9)
        let window = TransferPath(roundTrip: 0.1, delay: 0.1, window: 6_000_000, isLossy: false)
        plan.learned(window, by: first, now: 0.9)
        for part in parts { _ = plan.ended(part.id, at: part.range.upperBound, now: 0.9) }
        let more = opens(plan.actions(now: 0.9))
        #expect(more.isEmpty, "a window that grows doubles until the answer is there")
    }

    @Test(
        "hardly a byte comes twice",
        arguments: [
            (20, 0.1, 40e6, 125e6), (50, 0.1, 40e6, 125e6), (500, 0.1, 25e6, 125e6), (20, 0.2, 100e6, 6.25e6),
            (100, 0.02, 100e6, 62e6), (100, 0.02, 2e6, 62e6),
        ])
    func twice(megabytes: Int64, roundTrip: Double, most: Double, link: Double) {
        var fetch = FarFetch(megabytes * 1_000_000, roundTrip: roundTrip)
        (fetch.most, fetch.link) = (most, link)
        let isDone = fetch.run(within: 100, step: roundTrip / 20)
        #expect(isDone)
        #expect(Double(fetch.sent) <= 1.03e6 * Double(megabytes), "\(fetch.sent)")
    }

    @Test("a small rest gets few connections, but many where packets are lost", arguments: [false, true])
    func few(isLossy: Bool) {
        var fetch = FarFetch(20_000_000, roundTrip: 0.1, isLossy: isLossy)
        if isLossy { fetch.most = 3e5 }
        let isDone = fetch.run(within: 60)
        #expect(isDone)
        #expect(isLossy ? fetch.mostAtOnce > 8 : (3...5).contains(fetch.mostAtOnce), "\(fetch.mostAtOnce)")
    }

    @Test("a near server is not asked before it is known how fast it is") func near() {
        var plan = SegmentPlan(missing: [0..<200_000_000], limit: 16)
        _ = plan.adopt(0..<200_000_000, now: 0)
        plan.learned(TransferPath(roundTrip: 0.001, isLossy: false))
        let actions = plan.actions(now: 0)
        #expect(actions.isEmpty)
    }

    @Test("answers in any order and refusals among them leave no byte without an owner") func anyOrder() {
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            for refused in 0..<8 {
                var plan = SegmentPlan(missing: [0..<200_000_000], limit: 16)
                let first = plan.adopt(0..<200_000_000, now: 0)
                plan.learned(Self.path)
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

    @Test("a host that bears two refuses three at most, and both stay at work") func two() {
        var fetch = FarFetch(400_000_000, roundTrip: 0.05)
        fetch.most = 5e6
        fetch.refuses = { $0 > 2 && $0 < 5 }
        let isDone = fetch.run(within: 100)
        #expect(isDone)
        #expect(fetch.fetched.contains(0..<400_000_000))
        // Two connections need 40 s.
        #expect(fetch.refused <= 3 && fetch.now < 42, "\(fetch.refused) \(fetch.now)")
    }

    @Test("responses end by themselves: hardly one is cut off") func kept() {
        var fetch = FarFetch(500_000_000, roundTrip: 0.1)
        let isDone = fetch.run(within: 60)
        #expect(isDone)
        #expect(fetch.fetched.intervals == [0..<500_000_000])
        // All of the link, but for its slow start and the last round trips.
        #expect(fetch.now < 8, "\(fetch.now)")
        #expect(fetch.opened < 150, "\(fetch.opened)")
    }

    @Test("a part whose owner has nearly brought it when the answer comes is left to the owner") func tooLate() {
        var plan = SegmentPlan(missing: [0..<20_000_000], limit: 2)
        let first = plan.adopt(0..<20_000_000, now: 0)
        plan.learned(Self.path)
        let parts = opens(plan.actions(now: 0))
        #expect(parts.count == 1)
        plan.sample(first, received: parts[0].range.lowerBound - 1_000_000, now: 0.2)
        plan.sample(first, received: parts[0].range.lowerBound - 100_000, now: 0.3)
        let window = TransferPath(roundTrip: 0.1, delay: 0.1, window: 12_000_000, isLossy: false)
        plan.learned(window, by: first, now: 0.3)
        let answer = plan.opened(parts[0].id, length: Int64(parts[0].range.count), now: 0.3)
        #expect(answer == [.drop(id: parts[0].id)], "6 MB of it are under way already")
        #expect(plan.connections.keys.sorted() == [first] && plan.connections[first]!.end == 20_000_000)
    }

    @Test("whatever the way, all is fetched, hardly a byte twice, and never over more connections than allowed")
    func anyWay() {
        let seed = UInt64.random(in: 0...(.max))
        var generator = SeededGenerator(state: seed)
        for way in 0..<60 {
            let limit = Int.random(in: 1...16, using: &generator)
            let total = Int64.random(in: 1...300_000_000, using: &generator)
            var fetch = FarFetch(
                total, roundTrip: .random(in: 0.005...0.3, using: &generator), isLossy: .random(using: &generator),
                limit: limit)
            fetch.most = .random(in: 1e5...5e7, using: &generator)
            fetch.link = .random(in: 1e6...1e8, using: &generator)
            let isDone = fetch.run(within: 10_000, step: 0.02)
            let name = "seed \(seed), way \(way): limit \(limit), total \(total)"
            #expect(isDone, "\(name)")
            #expect(fetch.fetched.intervals == [0..<total], "\(name)")
            #expect(Double(fetch.sent) <= 1.03 * Double(total) + 3_000_000, "\(name), sent \(fetch.sent)")
            #expect(fetch.mostAtOnce <= limit, "\(name)")
        }
    }
}
