import HaulBus
import HaulContract
import HaulRedis
import HaulTerminal
import Synchronization

/// Follows jobs until they have ended: by their events, and by their hashes in case messages are lost.
struct Follower {
    let queue: Queue
    /// The jobs to follow. If empty, all jobs are followed, without end.
    let ids: [String]
    let json: Bool
    /// The times of the pushes by job id, Unix ms. A job's end counts only if it is the end of this push.
    var pushed: [String: Int64] = [:]
    /// URLs for the lines of failures: events have none.
    var urls: [String: String] = [:]

    private let progress: ProgressDestination

    init(_ queue: Queue, _ ids: [String], json: Bool, progress: ProgressStyle?) {
        (self.queue, self.ids, self.json) = (queue, ids, json)
        self.progress = json ? .nowhere : .choose(progress, fallback: .plain)
    }

    /// Follows jobs that have just been pushed.
    init(
        _ queue: Queue, _ elements: [Element], json: Bool, progress: ProgressStyle?, pushed: [String: Int64]
    ) {
        self.init(queue, elements.map(\.id), json: json, progress: progress)
        self.pushed = pushed
        urls = Dictionary(elements.map { ($0.id, $0.maskedURL) }) { $1 }
    }

    private enum Input: Sendable {
        case element(Subscription.Element)
        case refresh, draw, rejected
    }

    /// What is known of the jobs so far.
    private struct State {
        var display: WatchDisplay
        /// The jobs whose end has not been seen.
        var open: Set<String>
        var hasFailed = false
        /// Events `rejected` of pushed jobs. They may be about other pushes of these.
        var rejected: [Event] = []
        /// The event of a rejected push may have been missed.
        var missedEvents = false
        /// Redis is away, and that has been printed.
        var isInterrupted = false
        var notice: ServiceNotice
    }

    /// - Throws: `ExitStatus.jobFailed` at the end if a job failed or was cancelled.
    func follow() async throws {
        var notice = ServiceNotice(queue)
        await notice.refresh()
        Terminal.isFollowing.store(true, ordering: .relaxed)
        var state = State(
            display: WatchDisplay(progress, names: urls), open: Set(ids),
            notice: notice)
        // If the output is not read, old events are dropped. The ends of jobs are also read from the hashes.
        let (inputs, feed) = AsyncStream<Input>.makeStream(bufferingPolicy: .bufferingNewest(100_000))
        let subscription = queue.events(of: ids.isEmpty ? nil : ids)
        var sources = [
            Task { for await element in subscription { feed.yield(.element(element)) } },
            Self.every(.seconds(2)) { feed.yield(.refresh) },
        ]
        if !json { sources.append(Self.every(state.display.interval) { feed.yield(.draw) }) }
        defer { for source in sources { source.cancel() } }
        for await input in inputs {
            switch input {
            case .element(.message(_, let payload)):
                let hadNone = state.rejected.isEmpty
                handle(payload, &state)
                // Those that come together are looked up together.
                if hadNone, !state.rejected.isEmpty {
                    sources.append(Self.once(after: .milliseconds(100)) { feed.yield(.rejected) })
                }
            case .element(.interrupted(let error)):
                if error.code == .authentication || error.code == .noPermission { throw ExitStatus.printing(error) }
                // Events until the next `.subscribed` are missed.
                reportInterruption(error, &state)
            case .draw: await draw(&state)
            case .element(.subscribed):
                state.isInterrupted = false
                state.missedEvents = true
                // The ends of some may have been missed. Those that still run come back with their next progress.
                if ids.isEmpty { state.display.forgetRunning() }
                try await refresh(&state)
                try await findRejected(&state)
            case .refresh:
                try await refresh(&state)
                if state.missedEvents || !state.rejected.isEmpty { try await findRejected(&state) }
            case .rejected: try await findRejected(&state)
            }
            if !ids.isEmpty, state.open.isEmpty { break }
        }
        state.display.finish()
        if state.hasFailed { throw ExitStatus.jobFailed }
    }

    /// Prints the error, once for each interruption.
    private func reportInterruption(_ error: RedisError, _ state: inout State) {
        if !state.isInterrupted { Terminal.printError("haul: \(error.message); trying again") }
        state.isInterrupted = true
    }

    private static func once(
        after time: Duration, _ body: @escaping @Sendable () -> Void
    ) -> Task<Void, Never> {
        Task {
            try? await Task.sleep(for: time)
            body()
        }
    }

    private static func every(_ interval: Duration, _ body: @escaping @Sendable () -> Void) -> Task<Void, Never> {
        Task {
            while !Task.isCancelled {
                try? await Task.sleep(for: interval)
                body()
            }
        }
    }

    private func handle(_ payload: [UInt8], _ state: inout State) {
        // An end may have been read from the hash before its event arrives. The event is then ignored.
        guard let event = Event(payload), ids.isEmpty || state.open.contains(event.id) else { return }
        if json {
            Terminal.line(JSON.onOneLine(String(decoding: payload, as: UTF8.self)))
        } else {
            state.display.show(event)
        }
        if event.kind == .rejected, pushed[event.id] != nil { state.rejected.append(event) }
        guard event.finalState != nil else { return }
        state.open.remove(event.id)
        if !ids.isEmpty, event.finalState != .completed { state.hasFailed = true }
    }

    private func draw(_ state: inout State) async {
        // Errors are ignored, because names are only shown. `refresh` reports the errors of Redis.
        let unknown = state.display.unknown
        let names = ["url", "path", "file", "started"]
        for (id, fields) in zip(unknown, (try? await queue.fields(names, of: unknown)) ?? []) {
            let row = JobRow(id: id, state: .running, fields: fields)
            state.display.describe(id, name: row.name, started: row.since)
        }
        state.display.draw()
    }

    /// Finds the pushes that were rejected: by the events that have come, or by the list of rejected elements.
    private func findRejected(_ state: inout State) async throws {
        let pushes = state.open.compactMap { id in pushed[id].map { KnownPush(id: id, timestamp: $0) } }
        guard !pushes.isEmpty else { return }
        let found: [String: Event]
        do throws(RedisError) {
            found = try await queue.rejections(
                of: pushes, events: state.rejected, searching: state.missedEvents ? 1000 : 100)
        } catch {
            guard error.isTransient else { throw error }
            return reportInterruption(error, &state)
        }
        let shown = Set(state.rejected.map(\.id))
        (state.rejected, state.missedEvents) = ([], false)
        for (id, event) in found where state.open.remove(id) != nil {
            state.hasFailed = true
            // Otherwise the event has printed it.
            guard !shown.contains(id) else { continue }
            let reason = event["reason"]?.string ?? ""
            if json {
                Terminal.line("{\"id\":\(JSON.quoted(id)),\"state\":\"rejected\",\"reason\":\(JSON.quoted(reason))}")
            } else {
                state.display.end("\(id)  rejected: \(reason.printable)", id: id)
            }
        }
    }

    /// Reads the hashes of the jobs whose end has not been seen.
    private func refresh(_ state: inout State) async throws {
        await state.notice.refresh()
        if ids.isEmpty, let count = try? await queue.count(in: .running) { state.display.record(running: count) }
        let openIDs = Array(state.open)
        let (records, removed): ([JobRecord], [String])
        do throws(RedisError) {
            records = try await queue.jobs(openIDs)
            let unknown = state.open.subtracting(records.map(\.id))
            removed = try await queue.removed(pushed.filter { unknown.contains($0.key) })
        } catch {
            // Redis may be away for a while. The next look is two seconds later.
            guard error.isTransient else { throw error }
            reportInterruption(error, &state)
            return
        }
        for record in records where pushed[record.id].map(record.hasEnded(since:)) ?? record.hasEnded {
            state.open.remove(record.id)
            if record.state != .completed { state.hasFailed = true }
            if json {
                Terminal.line(record.json())
            } else {
                state.display.end(JobView(record: record).line, id: record.id)
            }
        }
        for id in removed {
            state.open.remove(id)
            state.hasFailed = true
            if json {
                Terminal.line("{\"id\":\(JSON.quoted(id)),\"state\":\"removed\"}")
            } else {
                state.display.end("\(id)  removed", id: id)
            }
        }
    }
}
