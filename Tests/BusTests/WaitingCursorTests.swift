import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

@testable import HaulBus

/// The way through all waiting elements, while workers move them from list to list.
@Suite struct WaitingCursorTests {
    /// Moves elements as the functions do: Lua/limits/groups.lua, Lua/limits/hosts.lua and Lua/claim/kinds.lua.
    private struct Mover {
        let f: QueueFixture
        var random: SeededGenerator
        private var pushed = 0
        private(set) var claimed: Set<String> = []

        init(_ f: QueueFixture, seed: UInt64) { (self.f, random) = (f, SeededGenerator(state: seed)) }

        private var keys: Keys { f.queue.keys }

        mutating func push(_ count: Int) async throws {
            guard count > 0 else { return }
            let numbers = pushed..<pushed + count
            try await f.push(numbers.map { #"{"url":"http://h/\#($0)","id":"j\#($0)"}"# })
            pushed += count
        }

        /// Moves up to `count` elements from the front of one list to another one.
        private func move(_ count: Int, _ source: String, _ target: String, toFront: Bool = false) async throws {
            for _ in 0..<count {
                try await f.redis.send(Command("LMOVE", source, target, "RIGHT", toFront ? "RIGHT" : "LEFT"))
            }
        }

        /// Some of what workers do within the time of a page.
        mutating func step() async throws {
            let count = Int.random(in: 1...6, using: &random)
            let name = "\(Int.random(in: 0..<12, using: &random))"
            switch Int.random(in: 0..<9, using: &random) {
            case 0: try await push(count)
            case 1:
                for _ in 0..<count {
                    guard let element = try await f.redis.send(Command("RPOP", keys.jobs)).bytes else { return }
                    claimed.insert(Queue.listed(element).id)
                }
            case 2, 3:
                try await f.redis.send(Command("ZADD", keys[.deferredGroups], pushed, "g" + name))
                try await move(count, keys.jobs, keys[.deferredGroup] + "g" + name)
            case 4:
                try await f.redis.send(Command("ZADD", keys[.deferredHosts], 1, "h" + name))
                try await move(count, keys.jobs, keys[.deferredHost] + "h" + name)
            case 5:
                try await f.redis.send(Command("HSET", keys.deferredKinds, "upload", 1))
                try await move(count, keys.jobs, keys.deferredKind("upload"))
            case 6: try await move(count, keys[.deferredGroup] + "g" + name, keys.jobs, toFront: true)
            case 7: try await move(count, keys[.deferredHost] + "h" + name, keys.jobs, toFront: true)
            default: try await move(count, keys.deferredKind("upload"), keys.jobs, toFront: true)
            }
        }
    }

    @Test("a cursor passes each element that waits all the time, wherever it is moved", arguments: 1...6)
    func moved(_ seed: Int) async throws {
        let f = try await QueueFixture()
        var mover = Mover(f, seed: UInt64(seed))
        let count = [40, 300, 2500][seed % 3]
        try await mover.push(count)
        for _ in 0..<(seed % 2) * 40 { try await mover.step() }
        try await f.redis.send(Command("RPUSH", f.queue.keys.held("w1"), #"{"url":"http://h/","id":"held"}"#))
        let before = Set(try await f.queue.ids(in: .queued, limit: .max))
        var cursor = WaitingCursor(f.queue)
        var passed: Set<String> = []
        while let page = try await cursor.next(limit: 60) {
            passed.formUnion(page.map(\.id))
            for _ in 0..<2 { try await mover.step() }
        }
        let missed = before.subtracting(mover.claimed).subtracting(passed)
        #expect(missed.isEmpty && passed.contains("held"), "seed \(seed): \(missed.sorted())")
    }

    @Test("elements that move into lists which did not exist when the reading began are passed")
    func newLists() async throws {
        let f = try await QueueFixture()
        try await f.push((0..<3000).map { #"{"url":"http://h/\#($0)","id":"j\#($0)","group":"g\#($0 % 40)"}"# })
        var cursor = WaitingCursor(f.queue)
        var passed: Set<String> = []
        while let page = try await cursor.next(limit: 300) {
            passed.formUnion(page.map(\.id))
            // Ticks sort the next elements into lists of their groups.
            try await f.tick()
        }
        #expect(passed.count == 3000)
    }

    @Test("an element that returns to the queue in front of what was read is passed") func returned() async throws {
        let f = try await QueueFixture()
        try await f.push((0..<1000).map { #"{"url":"http://h/\#($0)","id":"j\#($0)"}"# })
        let hosted = (0..<700).map { #"{"url":"http://s/\#($0)","id":"s\#($0)"}"# }
        let list = f.queue.keys[.deferredHost] + "s"
        try await f.redis.send(Command("ZADD", f.queue.keys[.deferredHosts], 1, "s"))
        try await f.redis.send(Command(arguments: ["LPUSH", list] + hosted))
        var cursor = WaitingCursor(f.queue)
        var passed: Set<String> = []
        while let page = try await cursor.next(limit: 500) {
            passed.formUnion(page.map(\.id))
            if passed.count == 1000 {
                // Now `jobs` was read, and its length does not change.
                try await f.redis.send(Command("RPOP", f.queue.keys.jobs, 500))
                for _ in 0..<500 {
                    try await f.redis.send(Command("LMOVE", list, f.queue.keys.jobs, "RIGHT", "RIGHT"))
                }
            }
        }
        #expect(passed.count == 1700)
    }

    @Test("a pass ends although others are pushed and claimed all the time") func ends() async throws {
        let f = try await QueueFixture()
        try await f.push((0..<20).map { #"{"url":"http://h/\#($0)","id":"j\#($0)"}"# })
        var cursor = WaitingCursor(f.queue)
        var pages = 0
        while try await cursor.next(limit: 10) != nil {
            pages += 1
            try await f.redis.send(Command("DEL", f.queue.keys.jobs))
            try await f.push((0..<20).map { #"{"url":"http://h/\#($0)","id":"p\#(pages)-\#($0)"}"# })
        }
        #expect(pages < 50)
    }

    @Test("groups whose turns change meanwhile are all found") func groups() async throws {
        let f = try await QueueFixture()
        let groups = (0..<2500).map { "g\($0)" }
        for page in groups.chunks(ofCount: 500) {
            let pairs = page.flatMap { [$0 == "g2499" ? "1" : "7", $0] }
            try await f.redis.send(Command(arguments: ["ZADD", f.queue.keys[.deferredGroups]] + pairs))
            _ = try await f.redis.pipeline(
                page.map { .command(Command("LPUSH", f.queue.keys[.deferredGroup] + $0, "{}")) })
        }
        let redis = Redis(try RedisURL(f.server.url), name: "turns")
        let turns = Task {
            // The first group comes behind all others.
            var score = 8
            while !Task.isCancelled {
                score += 1
                let first = try await redis.send(Command("ZRANGE", f.queue.keys[.deferredGroups], 0, 0)).array?.first
                try await redis.send(
                    Command("ZADD", f.queue.keys[.deferredGroups], score, first?.string ?? "g0"))
            }
        }
        for _ in 0..<5 {
            let lists = try await f.queue.waitingLists().lists
            #expect(lists.count { if case .group = $0.location { true } else { false } } == 2500)
        }
        turns.cancel()
        _ = await turns.result
        await redis.close()
    }

    @Test("a cursor passes each element of a list from whose middle a recheck removes others") func rechecked()
        async throws
    {
        let f = try await QueueFixture()
        let list = f.queue.keys[.deferredHost] + "h"
        try await f.redis.send(Command("ZADD", f.queue.keys[.deferredHosts], 1, "h"))
        for page in Array(0..<4000).chunks(ofCount: 500) {
            let elements = page.map { #"{"url":"http://h/\#($0)","id":"j\#($0)"}"# }
            try await f.redis.send(Command(arguments: ["LPUSH", list] + elements))
        }
        var cursor = WaitingCursor(f.queue)
        var (passed, pages): (Set<String>, Int) = ([], 0)
        while let page = try await cursor.next(limit: 200) {
            passed.formUnion(page.map(\.id))
            pages += 1
            guard pages == 5 else { continue }
            // The 800 elements that were pushed last are done.
            for position in 0..<800 { try await f.redis.send(Command("LSET", list, position, "")) }
            #expect(try await f.redis.send(Command("LREM", list, 0, "")).int == 800)
        }
        #expect(Set((0..<3200).map { "j\($0)" }).subtracting(passed).isEmpty)
    }
}
