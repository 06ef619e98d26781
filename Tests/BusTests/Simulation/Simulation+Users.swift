import HaulContract
import HaulRedis
import HaulTestSupport

@testable import HaulBus

// Producers and operators.

extension Simulation {
    /// A job that still gets pushes and operations; seldom an old one.
    mutating func someone() -> String? {
        let ids = ledger.ids
        return random.chance(95) ? ids.suffix(Self.window).randomElement(using: &random) : ids.first
    }

    /// A job with an operation that waits, if there is one and by chance; else any job that still gets pushes.
    private mutating func someoneStopping() -> String? {
        let ids = ledger.ids.suffix(Self.window).filter { ledger.stories[$0]!.taken != nil }
        return random.chance(50) ? ids.randomElement(using: &random) ?? someone() : someone()
    }

    /// Pushes a new job, or a known one again.
    mutating func push() async throws {
        try await advance(1)
        let isNew = ledger.ids.isEmpty || random.chance(60)
        var members: [String] = []
        var id = isNew ? nil : someoneStopping()
        if isNew {
            numbers += 1
            if random.chance(80) { id = "j\(numbers)" }
        }
        let known = id.flatMap { ledger.stories[$0] }
        if known?.isTimed == false { return }
        // A known job may have only an operation so far. Then this is its first push.
        let isTimed = known?.element.isEmpty ?? true ? random.chance(80) : true
        if let id { members.append(#""id":"\#(id)""#) }
        let place = "//h\((id ?? String(numbers)).utf8.last! % 2)/\(id ?? String(numbers))"
        // The URL may be relative, since the defaults have a base.
        members.append("\"url\":\"\(id != nil && random.chance(15) ? place : "http:" + place)\"")
        if isTimed { members.append(#""at":\#(ledger.now)"#) }
        if random.chance(12) { members.append(#""delay":\#(Int.random(in: 0...20, using: &random))"#) }
        var periods: Set<Int64> = []
        if isTimed, random.chance(10) {
            let seconds = Int64.random(in: 1...40, using: &random)
            members.append(#""deadline":\#(seconds)"#)
            periods = [seconds * 1000]
        }
        let name = random.chance(50) ? replyName() : nil
        if let name { members.append(#""reply_to":"\#(name)""#) }
        if random.chance(70) {
            let more = random.chance(30) ? #","size":\#(Self.batchSize)"# : ""
            members.append(#""batch":{"name":"\#(batchName())"\#(more)}"#)
        }
        if random.chance(40) { members.append("\"group\":\"\(FleetLimits.groups.randomElement(using: &random)!)\"") }
        let text = "{" + members.joined(separator: ",") + "}"
        var story = Story(element: text, isTimed: isTimed)
        story.periods = periods
        story.deadlines = Set(periods.map { ledger.now + $0 })
        story.names = name.map { [$0] } ?? []
        story.isPoison = random.chance(6)
        let pushed = try id ?? Element(JSON(text)).id
        ledger.pushed(pushed, story)
        try await advance(1)
        try await redis.send(Command(random.chance(90) ? "LPUSH" : "RPUSH", queue.keys.jobs, text))
        record(isNew ? "pushed" : "pushed anew")
        if id == nil { record("pushed without an id") }
        // At times a pause or a cancel follows at once.
        if random.chance(10) { try await ask(random.chance(50) ? .paused : .cancelled, of: pushed) }
    }

    /// A name for a reply list that was never used.
    mutating func replyName() -> String {
        lists += 1
        return "r\(lists)"
    }

    /// Pushes the same element again, or a continuation.
    mutating func pushAgain() async throws {
        guard let id = someone(), let story = ledger.stories[id], !story.element.isEmpty else { return }
        if story.mayBeContinued, random.chance(50) { return try await goOn(id) }
        var element = story.element
        if !story.isTimed, random.chance(50) { element = #"{"id":"\#(id)"}"# }
        try await redis.send(Command(random.chance(80) ? "LPUSH" : "RPUSH", queue.keys.jobs, element))
        record("pushed again")
    }

    /// Pushes a continuation of a job that is paused, or about to be paused.
    private mutating func goOn(_ id: String) async throws {
        try await advance(1)
        ledger.demanded(id)
        try await redis.send(Command("LPUSH", queue.keys.jobs, #"{"id":"\#(id)","at":\#(ledger.now)}"#))
        try await advance(1)
        record("continued")
    }

    mutating func request() async throws {
        guard var id = someone() else { return }
        if random.chance(5) {
            // A job that may come later, or never.
            id = "j\(numbers + Int.random(in: 1...3, using: &random))"
        }
        // An old job gets no operation but its removal.
        guard ledger.ids.suffix(Self.window).contains(id) || ledger.stories[id] == nil else {
            return try await ask(.removed, of: id)
        }
        if ledger.stories[id]?.facts.state == .failed, random.chance(50) { return try await ask(.running, of: id) }
        let request = [
            ControlOperation.paused, .paused, .cancelled, .cancelled, .running, .running, .removed, .deleted,
        ]
        .randomElement(using: &random)!
        try await ask(request, of: id)
    }

    mutating func ask(_ request: ControlOperation, of id: String) async throws {
        try await advance(1)
        let isTimed = ledger.stories[id]?.isTimed ?? true || random.chance(50)
        ledger.requested(request, of: id, isTimed: isTimed)
        if isTimed {
            try await queue.request(request, of: [id], at: ledger.now)
        } else {
            try await redis.send(Command("HSET", queue.keys.want, id, request.rawValue))
        }
        try await advance(1)
        record("requests")
    }

    mutating func setting() async throws {
        try await advance(1)
        switch Int.random(in: 0..<14, using: &random) {
        case 10: try await limitFleet()
        case 11: try await limitHost()
        case 12: try await changeDefaults()
        case 13: try await limitGroup()
        case 6, 7: try await queue.set(.hostConnections, to: String(Int.random(in: 0...3, using: &random)))
        case 8:
            let most = Int.random(in: 0...2, using: &random)
            try await queue.setLimit(of: random.chance(50) ? "h0" : "h1", to: "{\"connections\":\(most)}")
        case 9: try await queue.set(.maxResponsesBytes, to: String(Int.random(in: 0...1500, using: &random)))
        case 0: try await queue.setSetting("paused", to: "1")
        case 1: try await queue.setSetting("max_running", to: String(Int.random(in: 0...6, using: &random)))
        default: try await open()
        }
        try await readLimits()
    }

    func open() async throws {
        try await queue.setSetting("paused", to: nil)
        try await queue.setSetting("max_running", to: nil)
        try await queue.set(.hostConnections, to: nil)
        for host in ["h0", "h1", "group:g0"] { try await queue.setLimit(of: host, to: nil) }
    }

    /// Pushes invalid elements and continuations of unknown jobs, and makes an invalid operation.
    mutating func meddle() async throws {
        let elements = ["{}", "[1]", #"{"id":"nobody"}"#, #"{"id":"j1","t":"0"}"#, #"{"url":"ftp://h/"}"#]
        try await redis.send(Command("RPUSH", queue.keys.jobs, elements.randomElement(using: &random)!))
        let name = replyName()
        ledger.refused.insert(name)
        try await redis.send(Command("LPUSH", queue.keys.jobs, #"{"url":"ftp://h/","reply_to":"\#(name)"}"#))
        try await redis.send(Command("HSET", queue.keys.want, "j 1", "paused"))
        record("nonsense")
    }
}
