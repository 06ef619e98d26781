import HaulContract
import HaulTestSupport
import Testing

@testable import HaulActivities
@testable import HaulHTTP

/// A plan whose connections deliver at given speeds, in simulated time.
struct SimulatedFetch {
    var plan: SegmentPlan
    var speeds: [Double]
    var refuses: (Int) -> Bool = { _ in false }
    /// Connections by id: start, position, end and speed.
    var live: [Int: (start: Int64, position: Double, end: Int64, speed: Double)] = [:]
    var fetched = ByteIntervals()
    var bytes: Int64 = 0
    var now = 0.0
    var most = 0
    var opened = 0

    init(_ total: Int64, speeds: [Double], limit: Int) {
        plan = SegmentPlan(missing: [0..<total], limit: limit)
        self.speeds = speeds
        let id = plan.adopt(0..<total, now: 0)
        live[id] = (0, 0, total, speeds[0])
        opened = 1
    }

    /// Runs until all bytes are fetched. Returns false if that takes longer than `limit` seconds.
    mutating func run(within limit: Double, step: Double = 0.05) -> Bool {
        while !plan.isDone {
            perform(plan.actions(now: now))
            most = max(most, live.count)
            now += step
            if now > limit { return false }
            for id in live.keys.sorted() {
                guard var one = live[id] else { continue }
                one.position = min(one.position + one.speed * step, Double(one.end))
                live[id] = one
                plan.sample(id, received: Int64(one.position) - one.start, now: now)
            }
            for id in live.keys.sorted() {
                guard let one = live[id], Int64(one.position) >= one.end else { continue }
                finish(id)
            }
        }
        return true
    }

    private mutating func finish(_ id: Int) {
        let one = live.removeValue(forKey: id)!
        let position = max(one.start, Int64(one.position))
        fetched.insert(one.start..<position)
        bytes += position - one.start
        perform(plan.ended(id, at: position, now: now))
    }

    private mutating func perform(_ actions: [SegmentPlan.Action]) {
        for action in actions {
            switch action {
            case .open(let id, let range):
                opened += 1
                if refuses(opened) {
                    plan.refused(id, for: .infinity, now: now)
                } else {
                    let speed = speeds[(opened - 1) % speeds.count]
                    live[id] = (range.lowerBound, Double(range.lowerBound), range.upperBound, speed)
                    perform(plan.opened(id, length: range.upperBound - range.lowerBound, now: now))
                }
            case .shorten(let id, let end):
                let position = Int64(live[id]?.position ?? 0)
                live[id]?.end = max(end, position)
            case .drop(let id):
                guard let one = live.removeValue(forKey: id) else { continue }
                let position = Int64(one.position)
                fetched.insert(one.start..<position)
                bytes += position - one.start
            }
        }
    }
}

@Suite struct SegmentPlanTests {
    static let million: Int64 = 1_000_000

    @Test("connections double while they add speed, up to the limit, and share the work evenly") func joins() {
        var fetch = SimulatedFetch(320 * Self.million, speeds: [2e6], limit: 16)
        let isDone = fetch.run(within: 20)
        #expect(isDone)
        #expect(fetch.most == 16)
        // The ideal time of 16 connections is 10 s.
        #expect(fetch.now < 10.8, "\(fetch.now)")
        #expect(fetch.fetched.intervals == [0..<320 * Self.million])
    }

    @Test("a fast response gets no extra connection") func fast() {
        var fetch = SimulatedFetch(100 * Self.million, speeds: [1e9], limit: 16)
        let isDone = fetch.run(within: 2, step: 0.02)
        #expect(isDone)
        #expect(fetch.opened == 1)
    }

    @Test("a connection twenty times slower costs little time at the end") func slow() {
        var fetch = SimulatedFetch(320 * Self.million, speeds: [2e6, 2e6, 1e5], limit: 3)
        let isDone = fetch.run(within: 200)
        #expect(isDone)
        let ideal = 320e6 / 4.1e6
        #expect(fetch.now < 1.1 * ideal, "\(fetch.now / ideal)")
        #expect(fetch.fetched.contains(0..<320 * Self.million))
    }

    @Test("a refused extra connection costs nothing") func refusal() {
        var fetch = SimulatedFetch(100 * Self.million, speeds: [1e7], limit: 8)
        fetch.refuses = { $0 > 1 }
        let isDone = fetch.run(within: 12)
        #expect(isDone)
        #expect(fetch.opened == 2 && fetch.bytes == 100 * Self.million)
    }

    @Test("an extra connection without a byte is dropped, and others fetch its bytes") func silent() {
        var fetch = SimulatedFetch(200 * Self.million, speeds: [5e6, 0, 5e6], limit: 2)
        let isDone = fetch.run(within: 60)
        #expect(isDone)
        #expect(fetch.fetched.contains(0..<200 * Self.million))
        #expect(fetch.now < 40, "\(fetch.now)")
    }

    @Test(
        "few bytes of a connection that falls silent are requested again within two seconds",
        arguments: [true, false])
    func straggler(endsLast: Bool) {
        var plan = SegmentPlan(missing: [0..<4 * Self.million], limit: 4)
        let first = plan.adopt(0..<4 * Self.million, now: 0)
        var (now, second) = (0.0, 0)
        while second == 0, now < 5 {
            now += 0.1
            plan.sample(first, received: Int64(now * 1e6), now: now)
            guard case .open(let id, let range)? = plan.actions(now: now).first else { continue }
            second = id
            _ = plan.opened(id, length: Int64(range.count), now: now)
        }
        let range = plan.connections[second]!.position..<plan.connections[second]!.end
        // The second one receives all but 1000 bytes, before or after the first one comes to its end.
        let silentFrom = now + (endsLast ? 0.3 : 0.1)
        if !endsLast { plan.sample(second, received: Int64(range.count) - 1000, now: silentFrom) }
        plan.sample(first, received: range.lowerBound, now: now + 0.2)
        _ = plan.ended(first, at: range.lowerBound, now: now + 0.2)
        if endsLast { plan.sample(second, received: Int64(range.count) - 1000, now: silentFrom) }
        var opened: [(id: Int, range: Range<Int64>, at: Double)] = []
        for step in 4..<400 {
            for case .open(let id, let range) in plan.actions(now: now + Double(step) / 10) {
                opened.append((id, range, now + Double(step) / 10))
            }
        }
        #expect(opened.count == 1 && opened.first?.range == range.upperBound - 1000..<range.upperBound)
        #expect((opened.first?.at ?? .infinity) - silentFrom <= 2)
        // The silent connection ends as soon as the server sends the bytes to the other one.
        #expect(plan.opened(opened[0].id, length: 1000, now: now + 40) == [.drop(id: second)])
        _ = plan.ended(opened[0].id, at: range.upperBound, now: now + 40)
        #expect(plan.isDone)
    }

    @Test("no connections join after some that added no speed") func saturated() {
        // The link carries 10 MB/s, however many connections share it.
        var plan = SegmentPlan(missing: [0..<1_000_000_000], limit: 16)
        var live: [Int: (start: Int64, received: Double)] = [plan.adopt(0..<1_000_000_000, now: 0): (0, 0)]
        var now = 0.0
        var growing: [Int] = []
        for step in 0..<100 {
            for action in plan.actions(now: now, mayOpen: { step % 20 == 19 }) {
                if case .open(let id, let range) = action {
                    live[id] = (range.lowerBound, 0)
                    _ = plan.opened(id, length: Int64(range.count), now: now)
                }
            }
            now += 0.1
            for id in live.keys {
                live[id]!.received += 1e6 / Double(live.count)
                plan.sample(id, received: Int64(live[id]!.received), now: now)
            }
            growing.append(live.count)
        }
        #expect(growing.last! <= 3, "\(growing.last!)")
    }

    @Test("at any speeds each byte is fetched exactly once, and the connection limit holds")
    func anySpeeds() {
        var generator = SystemRandomNumberGenerator()
        for _ in 0..<200 {
            let limit = Int.random(in: 1...16, using: &generator)
            let total = Int64.random(in: 1...500_000_000, using: &generator)
            let speeds = (0..<20).map { _ in Double.random(in: 1e5...5e7, using: &generator) }
            var fetch = SimulatedFetch(total, speeds: speeds, limit: limit)
            let isDone = fetch.run(within: 10_000)
            #expect(isDone, "limit \(limit) total \(total)")
            #expect(fetch.fetched.intervals == [0..<total], "limit \(limit) total \(total)")
            #expect(fetch.bytes == total, "limit \(limit) total \(total)")
            #expect(fetch.most <= limit)
        }
    }

    @Test("several gaps are fetched at once") func gaps() {
        var plan = SegmentPlan(missing: [0..<1_000_000, 5_000_000..<9_000_000, 20_000_000..<21_000_000], limit: 4)
        let first = plan.actions(now: 0)
        #expect(first == [.open(id: 1, range: 5_000_000..<9_000_000)])
        let answer = plan.opened(1, length: 4_000_000, now: 0.1)
        #expect(answer.isEmpty)
        plan.sample(1, received: 10_000, now: 0.2)
        let second = plan.actions(now: 0.2)
        #expect(second == [.open(id: 2, range: 0..<1_000_000)])
    }

    @Test("the remainder of a response shorter than requested is requested again") func short() {
        var plan = SegmentPlan(missing: [0..<10_000_000], limit: 1)
        let first = plan.actions(now: 0)
        #expect(first == [.open(id: 1, range: 0..<10_000_000)])
        _ = plan.opened(1, length: 4_000_000, now: 0)
        _ = plan.ended(1, at: 4_000_000, now: 1)
        let second = plan.actions(now: 1)
        #expect(second == [.open(id: 2, range: 4_000_000..<10_000_000)])
    }
}

@Suite struct SpeedFloorTests {
    @Test("a download is too slow by its average over 30 s, and held time does not count") func floor() {
        var floor = SpeedFloor(bytesPerSecond: 1000)
        for second in 0...60 {
            if floor.isTooSlow(arrived: Int64(second) * 1500, isHeld: false, now: Double(second)) {
                Issue.record("the download counted as too slow too early")
            }
        }
        for second in 61...200 {
            if floor.isTooSlow(arrived: 90_000, isHeld: true, now: Double(second)) { Issue.record("held time counted") }
        }
        var ended: Int?
        for second in 201...260 where ended == nil {
            if floor.isTooSlow(arrived: 90_000, isHeld: false, now: Double(second)) { ended = second }
        }
        #expect(ended != nil && ended! > 205 && ended! < 232, "\(ended ?? 0)")
    }
}

@Suite struct HoldRatioTests {
    /// Samples every 20 ms, from `begin` on, a transfer that is held for `share` of the time.
    private func watch(_ holds: inout HoldRatio, from begin: Double, for seconds: Double, held share: Double) {
        for step in stride(from: 0.02, through: seconds, by: 0.02) {
            holds.sample([1: 10 + step * share, 2: 10], now: begin + step)
        }
    }

    @Test("a momentary hold does not count, and a lasting one counts from 0.4 s until a second after it") func holds() {
        var holds = HoldRatio(isExpected: false)
        holds.sample([1: 10, 2: 10], now: 0)
        watch(&holds, from: 0, for: 3, held: 0)
        #expect(!holds.isLarge)
        holds.sample([1: 10.05, 2: 10.03], now: 3.5)
        #expect(!holds.isLarge, "a hold of 50 ms by the disk")
        holds.sample([1: 10, 2: 10], now: 4)
        watch(&holds, from: 4, for: 0.4, held: 0.5)
        #expect(holds.isLarge)
        watch(&holds, from: 4.4, for: 3, held: 0.5)
        #expect(holds.isLarge)
        holds.sample([1: 10, 2: 10], now: 7.5)
        watch(&holds, from: 7.5, for: 2.5, held: 0)
        #expect(!holds.isLarge)
    }

    @Test("an expected hold is assumed for a second, and then only if it is there", arguments: [0, 0.3])
    func expected(share: Double) {
        var holds = HoldRatio(isExpected: true)
        #expect(holds.isLarge)
        holds.sample([1: 0], now: 0.02)
        watch(&holds, from: 0.02, for: 0.9, held: 0)
        #expect(holds.isLarge)
        holds.sample([1: 10, 2: 10], now: 1)
        watch(&holds, from: 1, for: 2, held: share)
        #expect(holds.isLarge == (share > 0))
    }
}

@Suite struct HostLimitsTests {
    @Test("a host has a limit, and a waiting first connection goes before extra ones") func limit() async {
        let hosts = HostLimits(maxPerHost: 2)
        #expect(hosts.tryEnter("h") && hosts.tryEnter("h") && !hosts.tryEnter("h") && hosts.tryEnter("other"))
        let waiter = Task { await hosts.enter("h") }
        while true {
            hosts.leave("h")
            if !hosts.tryEnter("h") { break }
            await Task.yield()
        }
        #expect(await waiter.value)
        let cancelled = Task { await hosts.enter("h") }
        cancelled.cancel()
        #expect(await cancelled.value == false)
    }

    @Test("a host that refuses retains as many connections as it accepts, and they may be replaced at once")
    func complaint() {
        let hosts = HostLimits(maxPerHost: 8)
        for _ in 0..<4 { #expect(hosts.tryEnter("h")) }
        for _ in 0..<2 {
            hosts.backOff("h", retryAfter: nil)
            hosts.leave("h")
        }
        #expect(!hosts.tryEnter("h"))
        hosts.leave("h")
        #expect(hosts.tryEnter("h") && !hosts.tryEnter("h"))
    }

    @Test("connections that are refused at the same time do not count as accepted", arguments: 1...3)
    func refusedTogether(_ refused: Int) {
        let hosts = HostLimits(maxPerHost: 8, clock: { 1 })
        for _ in 0..<5 { #expect(hosts.tryEnter("h")) }
        for _ in 0..<refused { hosts.backOff("h", retryAfter: nil) }
        for _ in 0..<refused { hosts.leave("h") }
        #expect(hosts.figures.limits.map(\.limit) == [Double(5 - refused)])
        #expect(!hosts.tryEnter("h"))
        for _ in refused..<5 { hosts.leave("h") }
        #expect(hosts.figures.active == 0)
    }

    @Test("a waiting download begins when the limit rises, although no connection ends")
    func risenLimit() async throws {
        let hosts = HostLimits(maxPerHost: 1)
        #expect(await hosts.enter("h"))
        async let second = hosts.enter("h")
        try await eventually("one to wait") { hosts.figures.waiting == 1 }
        hosts.setMax(2)
        #expect(await second)
    }

    @Test("a later refusal does not shorten the time that the host has asked for") func longestComplaint() {
        let hosts = HostLimits(maxPerHost: 8)
        for _ in 0..<4 { #expect(hosts.tryEnter("h")) }
        hosts.backOff("h", retryAfter: .seconds(3600))
        hosts.backOff("h", retryAfter: .zero)
        for _ in 0..<4 { hosts.leave("h") }
        #expect(!hosts.tryEnter("h"))
    }

    @Test("hosts that once refused are forgotten when their limits have recovered") func forgotten() {
        let now = Shared<UInt64>(1)
        let hosts = HostLimits(maxPerHost: 4) { now.value }
        for number in 0..<10_000 {
            let host = "h:\(number)"
            for _ in 0..<2 { #expect(hosts.tryEnter(host)) }
            hosts.backOff(host, retryAfter: number % 2 == 0 ? .seconds(60) : nil)
            for _ in 0..<2 { hosts.leave(host) }
            now.change { $0 += 1_000_000_000 }
        }
        #expect(hosts.count < 500)
        #expect(!hosts.figures.limits.isEmpty, "those that have refused lately")
        #expect(hosts.figures.backoffs == 10_000)
    }
}
