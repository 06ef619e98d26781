import HaulContract
import HaulRedis
import HaulTestSupport

@testable import HaulBus

// Producers and operators.

extension Simulation {
    /// The id of a random job that still gets pushes and operations; seldom of an old one.
    mutating func randomID() -> String? {
        let ids = ledger.steeredIDs
        return random.chance(95) ? ids.suffix(Self.window).randomElement(using: &random) : ids.first
    }

    /// Half of the time the id of a job whose operation waits, if there is one; else any that still gets pushes.
    private mutating func randomStoppedID() -> String? {
        let ids = ledger.steeredIDs.suffix(Self.window).filter { ledger.jobs[$0]!.want != nil }
        return random.chance(50) ? ids.randomElement(using: &random) ?? randomID() : randomID()
    }

    /// Pushes a new job, or a known one again.
    mutating func push() async throws {
        try await advance(1)
        let isNew = ledger.ids.isEmpty || random.chance(60)
        var id = isNew ? nil : randomStoppedID()
        if isNew {
            numbers += 1
            if random.chance(80) { id = "j\(numbers)" }
        }
        try await push(id, isNew: isNew)
    }

    /// Pushes a job again in the millisecond in which it has ended.
    mutating func pushAtEnd(of id: String) async throws {
        try await push(id, isNew: false)
        record("pushed in the millisecond of an end")
    }

    private mutating func push(_ id: String?, isNew: Bool) async throws {
        var members: [String] = []
        let known = id.flatMap { ledger.jobs[$0] }
        if known?.isTimed == false { return }
        // A known job may have only an operation so far. Then this is its first push.
        let isTimed = known?.element.isEmpty ?? true ? random.chance(80) : true
        if let id { members.append(#""id":"\#(id)""#) }
        let relativeURL = "//h\((id ?? String(numbers)).utf8.last! % 2)/\(id ?? String(numbers))"
        // The URL may be relative, since the defaults have a base.
        members.append("\"url\":\"\(id != nil && random.chance(15) ? relativeURL : "http:" + relativeURL)\"")
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
        if let notify = Self.notify(of: id) { members.append(notify) }
        let text = "{" + members.joined(separator: ",") + "}"
        var job = ExpectedJob(element: text, isTimed: isTimed)
        job.periods = periods
        job.deadlines = Set(periods.map { ledger.now + $0 })
        job.replyLists = name.map { [$0] } ?? []
        job.isPoison = random.chance(6)
        let pushed = try id ?? Element(JSON(text)).id
        ledger.recordPush(pushed, job)
        try await advance(1)
        try await redis.send(Command(random.chance(90) ? "LPUSH" : "RPUSH", queue.keys.jobs, text))
        record(isNew ? "pushed" : "pushed with other fields")
        if id == nil { record("pushed without an id") }
        // At times a pause or a cancel follows at once.
        if random.chance(10) { try await apply(random.chance(50) ? .paused : .cancelled, of: pushed) }
    }

    /// A name for a reply list that was never used.
    mutating func replyName() -> String {
        lists += 1
        return "r\(lists)"
    }

    /// Pushes the same element again, or a continuation.
    mutating func pushAgain() async throws {
        guard let id = randomID(), let job = ledger.jobs[id], !job.element.isEmpty else { return }
        if job.mayBeContinued, random.chance(50) { return try await pushContinuation(id) }
        var element = job.element
        if !job.isTimed, random.chance(50) { element = #"{"id":"\#(id)"}"# }
        try await redis.send(Command(random.chance(80) ? "LPUSH" : "RPUSH", queue.keys.jobs, element))
        record("pushed again")
    }

    /// Pushes a continuation of a job that is paused, or about to be paused.
    private mutating func pushContinuation(_ id: String) async throws {
        try await advance(1)
        ledger.markPending(id)
        try await redis.send(Command("LPUSH", queue.keys.jobs, #"{"id":"\#(id)","at":\#(ledger.now)}"#))
        try await advance(1)
        record("continued")
    }

    mutating func applyRandomOperation() async throws {
        guard var id = randomID() else { return }
        if random.chance(5) {
            // A job that may come later, or never.
            id = "j\(numbers + Int.random(in: 1...3, using: &random))"
        }
        // An old job gets no operation but its removal.
        guard ledger.steeredIDs.suffix(Self.window).contains(id) || ledger.jobs[id] == nil else {
            return try await apply(.removed, of: id)
        }
        if ledger.jobs[id]?.facts.state == .failed, random.chance(50) { return try await apply(.running, of: id) }
        let operation = [
            ControlOperation.paused, .paused, .cancelled, .cancelled, .running, .running, .removed, .deleted,
        ]
        .randomElement(using: &random)!
        try await apply(operation, of: id)
    }

    mutating func apply(_ operation: ControlOperation, of id: String) async throws {
        try await advance(1)
        let isTimed = ledger.jobs[id]?.isTimed ?? true || random.chance(50)
        ledger.recordOperation(operation, of: id, isTimed: isTimed)
        if isTimed {
            try await queue.request(operation, of: [id], at: ledger.now)
        } else {
            try await redis.send(Command("HSET", queue.keys.want, id, operation.rawValue))
        }
        try await advance(1)
        record("operations")
    }

    mutating func changeSetting() async throws {
        try await advance(1)
        switch Int.random(in: 0..<14, using: &random) {
        case 10: try await limitFleet()
        case 11: try await limitHost()
        case 12: try await changeDefaults()
        case 13: try await limitGroup()
        case 6, 7: try await queue.set(.hostConnections, to: String(Int.random(in: 0...3, using: &random)))
        case 8:
            let connections = Int.random(in: 0...2, using: &random)
            try await queue.setLimit(of: random.chance(50) ? "h0" : "h1", to: "{\"connections\":\(connections)}")
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
    mutating func pushInvalid() async throws {
        let elements = ["{}", "[1]", #"{"id":"nobody"}"#, #"{"id":"j1","t":"0"}"#, #"{"url":"ftp://h/"}"#]
        try await redis.send(Command("RPUSH", queue.keys.jobs, elements.randomElement(using: &random)!))
        let name = replyName()
        ledger.rejectedReplyLists.insert(name)
        try await redis.send(Command("LPUSH", queue.keys.jobs, #"{"url":"ftp://h/","reply_to":"\#(name)"}"#))
        try await redis.send(Command("HSET", queue.keys.want, "j 1", "paused"))
        record("invalid elements")
    }
}
