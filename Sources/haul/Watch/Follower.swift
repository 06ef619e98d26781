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
    /// URLs for the lines of failures: events have none.
    var urls: [String: String] = [:]

    init(_ queue: Queue, _ ids: [String], json: Bool) { (self.queue, self.ids, self.json) = (queue, ids, json) }

    /// Follows jobs that have just been pushed.
    init(_ queue: Queue, _ elements: [Element], json: Bool, pushed: [String: Int64]) {
        self.init(queue, elements.map(\.id), json: json)
        self.pushed = pushed
        urls = Dictionary(elements.map { ($0.id, $0.maskedURL) }) { $1 }
    }

    private enum Input: Sendable {
        case element(Subscription.Element)
        case look, draw
    }

    /// Throws `.jobFailed` at the end if a job failed or was cancelled.
    func follow() async throws {
        var isServed = await tellService(before: true)
        Terminal.isFollowing.store(true, ordering: .relaxed)
        var display = WatchDisplay(isTerminal: !json && Terminal.isInteractive, names: urls)
        var open = Set(ids)
        var hasFailed = false
        var isInterrupted = false
        let subscription = queue.events(of: ids.isEmpty ? nil : ids)
        // Old events are dropped where nobody reads what is printed. The hashes tell the ends.
        let (inputs, feed) = AsyncStream<Input>.makeStream(bufferingPolicy: .bufferingNewest(100_000))
        let reader = Task { for await element in subscription { feed.yield(.element(element)) } }
        let clock = Task {
            while !Task.isCancelled {
                try? await Task.sleep(for: .seconds(2))
                feed.yield(.look)
            }
        }
        let interval = json ? nil : Optional(display.interval)
        let painter = Task {
            while let interval, !Task.isCancelled {
                try? await Task.sleep(for: interval)
                feed.yield(.draw)
            }
        }
        defer {
            reader.cancel()
            clock.cancel()
            painter.cancel()
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
            case .draw:
                // Names are for people: what goes wrong with them is told of the jobs themselves.
                let unnamed = display.unnamed
                for (id, fields) in zip(unnamed, (try? await queue.fields(["url", "path", "file"], of: unnamed)) ?? [])
                {
                    display.name(id, JobRow(id: id, state: .running, fields: fields).name)
                }
                display.draw()
            case .element(.subscribed), .look:
                if case .element = input { isInterrupted = false }
                isServed = await tellService(before: isServed)
                if ids.isEmpty, let count = try? await queue.count(in: .running) { display.note(running: count) }
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

    /// Says when nobody serves the queue, and when somebody does again. Who may not see the workers is told nothing of them.
    private func tellService(before wasServed: Bool) async -> Bool {
        guard let count = try? await queue.workerCount() else { return true }
        if count == 0, wasServed { Terminal.complain("haul: \(Stats.unserved(queue)); waiting") }
        if count > 0, !wasServed { Terminal.complain("haul: a worker serves the queue \(queue.name) now") }
        return count > 0
    }
}
