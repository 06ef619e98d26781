import HaulBus
import HaulContract
import HaulRedis
import Synchronization

/// Follows jobs to their ends: by their events, and by their hashes in case that messages are lost.
struct Follower {
    let queue: Queue
    /// Empty: all jobs, without end.
    let ids: [String]
    let json: Bool
    /// When the jobs were pushed: an end that is none of this push is an earlier one.
    var pushed: [String: Int64] = [:]
    /// What failures are told with: events tell no URL.
    var urls: [String: String] = [:]

    /// The worker is this process' own, and on its way.
    var isOwn = false

    init(_ queue: Queue, _ ids: [String], json: Bool) { (self.queue, self.ids, self.json) = (queue, ids, json) }

    /// Of jobs that have just been pushed.
    init(_ queue: Queue, _ elements: [Element], json: Bool, pushed: [String: Int64]) {
        self.init(queue, elements.map(\.id), json: json)
        self.pushed = pushed
        urls = Dictionary(elements.map { ($0.id, $0.maskedURL) }) { $1 }
    }

    private enum Input: Sendable {
        case element(Subscription.Element)
        case look
    }

    /// Throws `.jobFailed` at the end if a job failed or was cancelled.
    func follow() async throws {
        // Who may not see the workers is told nothing of them.
        if !isOwn, (try? await queue.workerCount()) == 0 {
            Terminal.complain("haul: \(Stats.unserved(queue)); waiting")
        }
        Terminal.isFollowing.store(true, ordering: .relaxed)
        var display = ProgressDisplay(isTerminal: !json && Terminal.isInteractive, urls: urls)
        var open = Set(ids)
        var hasFailed = false
        var isInterrupted = false
        let subscription = queue.events(of: ids.isEmpty ? nil : ids)
        // Where nobody reads what is printed, old events go: the hashes tell the ends.
        let (inputs, feed) = AsyncStream<Input>.makeStream(bufferingPolicy: .bufferingNewest(100_000))
        let reader = Task { for await element in subscription { feed.yield(.element(element)) } }
        let clock = Task {
            while !Task.isCancelled {
                try? await Task.sleep(for: .seconds(2))
                feed.yield(.look)
            }
        }
        defer {
            reader.cancel()
            clock.cancel()
        }
        for await input in inputs {
            switch input {
            case .element(.message(_, let payload)):
                guard let event = Event(payload) else { continue }
                if json { Terminal.line(String(decoding: payload, as: UTF8.self)) } else { display.show(event) }
                let isRefused = event.name == "rejected" && pushed[event.id] != nil
                guard isRefused || event.finalState != nil else { continue }
                open.remove(event.id)
                if ids.contains(event.id), event.finalState != .completed { hasFailed = true }
            case .element(.interrupted(let error)):
                if error.code == .authentication || error.code == .noPermission { throw ExitStatus.because(error) }
                // Said once: what is published until the next `.subscribed` is not heard.
                if !isInterrupted { Terminal.complain("haul: \(error.message); trying again") }
                isInterrupted = true
            case .element(.subscribed), .look:
                if case .element = input { isInterrupted = false }
                let records = try await reaching { () throws(RedisError) in try await queue.jobs(Array(open)) }
                for record in records where pushed[record.id].map(record.hasEnded(since:)) ?? record.hasEnded {
                    open.remove(record.id)
                    if record.state != .completed { hasFailed = true }
                    if json {
                        Terminal.line(JobView(record: record).json)
                    } else {
                        display.end(JobView(record: record).line, id: record.id)
                    }
                }
                let unknown = open.subtracting(records.map(\.id))
                let waited = pushed.filter { unknown.contains($0.key) }
                for id in try await reaching({ () throws(RedisError) in try await queue.removed(waited) }) {
                    open.remove(id)
                    hasFailed = true
                    if json {
                        Terminal.line("{\"id\":\(JSON.quoted(id)),\"state\":\"removed\"}")
                    } else {
                        display.end("\(id)  removed", id: id)
                    }
                }
            }
            if !ids.isEmpty, open.isEmpty { break }
        }
        display.finish()
        if hasFailed { throw ExitStatus.jobFailed }
    }
}
