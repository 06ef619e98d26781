import Glibc
import HaulClient
import HaulContract
import HaulExecutors
import Synchronization

/// What Redis holds, and what workers would do with it.
final class FakeStore: Sendable {
    typealias Outcome = FakeHaulQueue.Outcome

    struct Event {
        let channel: String
        let text: [UInt8]
    }

    struct State {
        let prefix: String
        let name: String
        var lists: [String: [[UInt8]]] = [:]
        var hashes: [String: [String: String]] = [:]
        var pushed: [Job] = []
        var workers = 1
        /// Jobs that were taken, in the order of their pushes.
        var jobs: [(id: String, job: Job)] = []
        /// The members of each job's final event.
        var ends: [String: JSONObject] = [:]
        /// Pushes whose outcome the script has to say.
        var taken: [(id: String, job: Job)] = []
        var events: [Event] = []
        var last: Int64 = 0
        let epoch = FakeStore.now

        init(_ name: String) { (self.name, prefix) = (name, "haul:{\(name)}:") }
    }

    let state: Mutex<State>
    private let script: @Sendable (Job) -> Outcome
    private let publisher = Mutex<(@Sendable ([UInt8], String) -> Void)?>(nil)

    init(_ name: String, script: @escaping @Sendable (Job) -> Outcome) {
        state = Mutex(State(name))
        self.script = script
    }

    /// How events reach subscribers.
    var publish: (@Sendable ([UInt8], String) -> Void)? {
        get { publisher.withLock { $0 } }
        set { publisher.withLock { $0 = newValue } }
    }

    static var now: Int64 {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000
    }

    /// Changes the state, asks the script about new jobs, and publishes what has happened.
    @discardableResult
    func change<Result: Sendable>(_ body: (inout State) -> Result) -> Result {
        let result = state.withLock { body(&$0) }
        // Outside of the lock, because the script belongs to the test.
        while let (id, job) = state.withLock({ $0.taken.isEmpty ? nil : $0.taken.removeFirst() }) {
            let outcome = script(job)
            state.withLock { _ = $0.end(id, outcome) }
        }
        let events = state.withLock { state in
            defer { state.events = [] }
            return state.events
        }
        for event in events { publish?(event.text, event.channel) }
        return result
    }

    // MARK: Commands

    func respond(_ command: [[UInt8]], _ client: FakeRedis.Client) -> FakeRedis.Reply? {
        let words = command.map { String(decoding: $0, as: UTF8.self) }
        let verb = words.first?.uppercased() ?? ""
        switch verb {
        case "SUBSCRIBE", "PSUBSCRIBE", "UNSUBSCRIBE", "PUNSUBSCRIBE":
            client.subscribe(verb.lowercased(), to: Array(words.dropFirst()))
            return nil
        case "BLMOVE": return wait(Array(words.dropFirst()), client)
        default: return change { $0.respond(verb, Array(words.dropFirst()), command) }
        }
    }

    private func wait(_ arguments: [String], _ client: FakeRedis.Client) -> FakeRedis.Reply {
        let deadline = ContinuousClock.now + .seconds(Double(arguments.last ?? "") ?? 0)
        repeat {
            // A client that has gone must take nothing.
            let moved =
                client.isGone
                ? nil
                : state.withLock { state -> [UInt8]? in
                    guard let text = state.lists[arguments[0]]?.popLast() else { return nil }
                    state.lists[arguments[1], default: []].insert(text, at: 0)
                    return text
                }
            if let moved { return .bulk(moved) }
            usleep(2000)
        } while ContinuousClock.now < deadline && !client.isGone
        return .null
    }
}

extension FakeStore.State {
    typealias Reply = FakeRedis.Reply

    fileprivate mutating func respond(_ verb: String, _ words: [String], _ command: [[UInt8]]) -> Reply {
        let key = words.first ?? ""
        func slice<Element>(_ elements: [Element], _ first: String, _ last: String) -> [Element] {
            func index(_ text: String) -> Int {
                let number = Int(text) ?? 0
                return number < 0 ? max(0, elements.count + number) : number
            }
            let (start, end) = (index(first), min(index(last), elements.count - 1))
            return start > end ? [] : Array(elements[start...end])
        }
        switch verb {
        case "PING": return .status("PONG")
        case "CLIENT", "SELECT", "AUTH": return .status("OK")
        case "TIME":
            var time = timespec()
            clock_gettime(CLOCK_REALTIME, &time)
            return .texts(["\(time.tv_sec)", "\(time.tv_nsec / 1000)"])
        case "LPUSH", "RPUSH":
            if key == prefix + "jobs" {
                for text in command.dropFirst(2) { claim(text) }
                return .integer(command.count - 2)
            }
            return .error("ERR the fake has no list \(key)")
        case "LLEN": return .integer(lists[key]?.count ?? 0)
        case "LRANGE": return .array(slice(lists[key] ?? [], words[1], words[2]).map(Reply.bulk))
        case "LREM":
            guard let index = lists[key]?.firstIndex(of: command[3]) else { return .integer(0) }
            lists[key]?.remove(at: index)
            return .integer(1)
        case "HGET" where key == prefix + "urls": return ids(ofDigest: words[1]).first.map(Reply.text) ?? .null
        case "HSCAN" where key.hasPrefix(prefix + "url:"):
            let ids = ids(ofDigest: String(key.dropFirst(prefix.count + 4)))
            return .array([.text("0"), .texts(ids.flatMap { [$0, ""] })])
        case "HGETALL": return .texts((hashes[key] ?? [:]).flatMap { [$0.key, $0.value] })
        case "HGET": return hashes[key]?[words[1]].map(Reply.text) ?? .null
        case "HMGET": return .array(words.dropFirst().map { hashes[key]?[$0].map(Reply.text) ?? .null })
        case "HLEN": return .integer(hashes[key]?.count ?? 0)
        case "HSET" where key == prefix + "want":
            for index in stride(from: 1, to: words.count - 1, by: 2) { control(words[index], words[index + 1]) }
            return .integer((words.count - 1) / 2)
        case "ZCARD": return .integer(index(key).count)
        case "ZCOUNT": return .integer(key == prefix + "workers" ? workers : index(key).count)
        case "ZRANGE": return range(words)
        case "PUBLISH", "PEXPIRE", "WAIT", "EXISTS": return .integer(0)
        case "GET": return .null
        default: return .error("ERR the fake has no command \(verb)")
        }
    }

    /// The jobs that have a URL with this digest.
    private func ids(ofDigest digest: String) -> [String] {
        jobs.map(\.id).filter { (hash($0)["url_digests"] ?? "").split(separator: " ").contains(digest[...]) }
    }

    /// The jobs of an index, with their scores, in order.
    private func index(_ key: String) -> [(id: String, score: Int64)] {
        let name = String(key.dropFirst(prefix.utf8.count))
        let state = name == "leases" ? "running" : name
        return jobs.compactMap { id, _ in
            let hash = hashes[prefix + "job:" + id] ?? [:]
            return hash["state"] == state ? (id, hash["updated"].flatMap { Int64($0) } ?? 0) : nil
        }.sorted { ($0.score, $0.id) < ($1.score, $1.id) }
    }

    private func range(_ words: [String]) -> Reply {
        var entries = index(words[0])
        let options = words.dropFirst(3).map { $0.uppercased() }
        if options.contains("BYSCORE") {
            let (low, high) = (Int64(words[1]) ?? .min, Int64(words[2]) ?? .max)
            entries = entries.filter { low <= $0.score && $0.score <= high }
            if let limit = options.firstIndex(of: "LIMIT") {
                let (skip, count) = (Int(options[limit + 1]) ?? 0, Int(options[limit + 2]) ?? 0)
                entries = Array(entries.dropFirst(skip).prefix(count))
            }
        } else {
            if options.contains("REV") { entries.reverse() }
            let (first, last) = (max(0, Int(words[1]) ?? 0), Int(words[2]) ?? -1)
            entries = Array((last < 0 ? entries[...] : entries.prefix(last + 1)).dropFirst(first))
        }
        return .texts(entries.flatMap { options.contains("WITHSCORES") ? [$0.id, "\($0.score)"] : [$0.id] })
    }
}
