import HaulContract
import HaulHTTP
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
    private(set) var live: [Int: (start: Int64, position: Double, end: Int64, since: Double)] = [:]
    private var asked: [(id: Int, range: Range<Int64>, due: Double, number: Int)] = []
    private(set) var fetched = ByteIntervals()
    private(set) var bytes: Int64 = 0
    private(set) var opened = 1
    private(set) var refused = 0
    private(set) var mostAtOnce = 1
    private(set) var cut = 0
    private(set) var now = 0.0

    init(_ total: Int64, roundTrip: Double, isLossy: Bool = false, limit: Int = 16) {
        plan = SegmentPlan(missing: [0..<total], limit: limit)
        self.roundTrip = roundTrip
        live[plan.adopt(0..<total, now: 0)] = (0, 0, total, 0)
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
                one.position = min(one.position + wish * share * step, Double(one.end))
                live[id] = one
                plan.sample(id, received: Int64(one.position) - one.start, now: now)
            }
            for id in live.keys.sorted() {
                guard let one = live[id], Int64(one.position) >= one.end else { continue }
                perform(plan.ended(id, at: stop(id)))
            }
        }
        return true
    }

    private mutating func stop(_ id: Int) -> Int64 {
        let one = live.removeValue(forKey: id)!
        let position = max(one.start, Int64(one.position))
        fetched.insert(one.start..<position)
        bytes += position - one.start
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
            live[one.id] = (one.range.lowerBound, Double(one.range.lowerBound), one.range.upperBound, now)
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
                guard let position = live[id]?.position else { continue }
                live[id]!.end = max(end, Int64(position))
            case .drop(let id):
                asked.removeAll { $0.id == id }
                if live[id] != nil { _ = stop(id) }
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

    @Test("help is asked for with the first byte, from three at once, and the first response keeps most") func atOnce()
    {
        var plan = SegmentPlan(missing: [0..<200_000_000], limit: 16)
        let first = plan.adopt(0..<200_000_000, now: 0)
        plan.learned(Self.path)
        let parts = opens(plan.actions(now: 0))
        #expect(parts.count == 3)
        let early = plan.actions(now: 0.1)
        #expect(early.isEmpty, "none before one is answered")
        #expect(ByteIntervals(parts.map(\.range)).intervals.count == 1)
        #expect(parts.first?.range.upperBound == 200_000_000)
        for part in parts { _ = plan.opened(part.id, length: Int64(part.range.count), now: 0.2) }
        #expect(plan.connections[first]!.end > 150_000_000)
        let later = opens(plan.actions(now: 0.2))
        #expect(later.count == 3, "as they are answered, more are asked")
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
                let parts = opens(plan.actions(now: 0))
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

    @Test("whatever the way, all is fetched, and never over more connections than allowed") func anyWay() {
        var generator = SystemRandomNumberGenerator()
        for _ in 0..<100 {
            let limit = Int.random(in: 1...16, using: &generator)
            let total = Int64.random(in: 1...300_000_000, using: &generator)
            var fetch = FarFetch(
                total, roundTrip: .random(in: 0.005...0.3, using: &generator), isLossy: .random(using: &generator),
                limit: limit)
            fetch.most = .random(in: 1e5...5e7, using: &generator)
            fetch.link = .random(in: 1e6...1e8, using: &generator)
            let isDone = fetch.run(within: 10_000, step: 0.02)
            #expect(isDone, "limit \(limit) total \(total)")
            #expect(fetch.fetched.intervals == [0..<total], "limit \(limit) total \(total)")
            #expect(
                fetch.bytes <= 2 * total,
                "limit \(limit) total \(total) bytes \(fetch.bytes)")
            #expect(fetch.mostAtOnce <= limit)
        }
    }
}
