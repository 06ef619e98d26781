import HaulBus
import HaulContract
import HaulRedis
import HaulTerminal

/// Waits for the ends of calls.
struct CallEnds {
    let queue: Queue
    /// The times of the pushes by job id, Unix ms.
    let pushed: [String: Int64]

    /// Why there is no record of a call.
    enum Absence: Error {
        case rejected(String)
        case removed
    }

    private enum Input: Sendable {
        /// `missedEvents`: the event of a rejected push may have been missed.
        case refresh(missedEvents: Bool)
        /// An event, which may be about another push of the same job.
        case rejected(Event)
    }

    /// The result of each call by job id.
    func wait() async throws -> [String: Result<JobRecord, Absence>] {
        var ends: [String: Result<JobRecord, Absence>] = [:]
        let subscription = queue.events(of: Array(pushed.keys))
        let (inputs, feed) = AsyncStream<Input>.makeStream()
        let reader = Task {
            for await element in subscription {
                guard case .message(_, let payload) = element else {
                    feed.yield(.refresh(missedEvents: true))
                    continue
                }
                guard let event = Event(payload) else { continue }
                if event.kind == .rejected {
                    feed.yield(.rejected(event))
                } else if event.finalState != nil || event.kind == .duplicate {
                    feed.yield(.refresh(missedEvents: false))
                }
            }
        }
        // Look at the hashes every 2 s, in case a message is lost.
        let clock = Task {
            while !Task.isCancelled {
                try? await Task.sleep(for: .seconds(2))
                feed.yield(.refresh(missedEvents: false))
            }
        }
        defer {
            reader.cancel()
            clock.cancel()
        }
        var (notice, isInterrupted) = (ServiceNotice(queue), false)
        await notice.refresh()
        var (missedEvents, rejected): (Bool, [Event]) = (false, [])
        for await input in inputs {
            switch input {
            case .rejected(let event): rejected.append(event)
            case .refresh(let mayMiss): missedEvents = missedEvents || mayMiss
            }
            await notice.refresh()
            let open = pushed.filter { ends[$0.key] == nil }
            do throws(RedisError) {
                for record in try await queue.jobs(Array(open.keys))
                where record.hasEnded(since: open[record.id] ?? 0) {
                    ends[record.id] = .success(record)
                }
                let left = open.filter { ends[$0.key] == nil }
                for id in try await queue.removed(left) {
                    ends[id] = .failure(.removed)
                }
                if missedEvents || !rejected.isEmpty {
                    let pushes = left.map { KnownPush(id: $0.key, timestamp: $0.value) }
                    let found = try await queue.rejections(
                        of: pushes, events: rejected, searching: missedEvents ? 1000 : 100)
                    for (id, event) in found where ends[id] == nil {
                        ends[id] = .failure(.rejected(event["reason"]?.string ?? ""))
                    }
                    (missedEvents, rejected) = (false, [])
                }
            } catch {
                // Redis may be away for a while. The next look is two seconds later.
                guard error.isTransient else { throw error }
                if !isInterrupted { Terminal.printError("haul: \(error.message); trying again") }
                isInterrupted = true
            }
            if ends.count == pushed.count { break }
        }
        return ends
    }
}
