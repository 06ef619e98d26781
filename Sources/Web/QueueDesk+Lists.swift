import HaulBus
import HaulContract
import HaulRedis

// Lists of jobs, with filters or without.

extension QueueDesk {
    /// On how many jobs a filter is tried in one call, and on how many while nothing is found: each answer costs the page some milliseconds.
    struct Reach {
        let most: Int
        let inVain: Int

        static let search = Reach(most: 20_000, inVain: 100_000)
        /// What is looked at again each second costs Redis more than a search.
        static let watch = Reach(most: 2000, inVain: 2000)
    }

    /// For how long one call of a list looks on. Whoever waits is shown what one call finds: a second one costs as much again.
    private static let patience: Duration = .milliseconds(150)

    /// Once a second at most, and seldomer the more there are.
    func runningIDs() async throws -> [String] {
        if let running, running.read + .milliseconds(max(900, running.ids.count / 2)) > .now { return running.ids }
        let ids = try await queue.runningIDs()
        running = (ids, .now)
        return ids
    }

    /// Looks at `limit` jobs in `state`, without the first `start`: how many there were, and those that match with their places.
    private func matches(
        _ filter: JobFilter, _ matcher: JobMatcher, in state: JobState, from start: Int, limit: Int
    ) async throws -> WaitingPage {
        var page = WaitingPage()
        switch state {
        case .queued: page = try await queue.waiting(from: start, limit: limit, that: matcher.mayMatch)
        case .running:
            page = Self.page(of: try await runningIDs(), from: start, limit: limit)
        default:
            // Of jobs that have ended there may be far more than the batch has.
            if let ended = BatchState(rawValue: state.rawValue), !filter.batch.isEmpty,
                let ids = try await memberIDs(of: filter.batch, in: ended)
            {
                page = Self.page(of: ids, from: start, limit: limit)
                break
            }
            page.jobs = Array(try await queue.listed(in: state, from: start, limit: limit).enumerated()).map {
                ($0.offset, $0.element)
            }
            page.read = page.jobs.count
        }
        let values = try await queue.values(matcher.fields, of: page.jobs.map { $0.job.id })
        page.jobs = zip(page.jobs, values).filter { matcher.matches($0.job, $1) }.map { $0.0 }
        return page
    }

    private static func page(of ids: [String], from start: Int, limit: Int) -> WaitingPage {
        var page = WaitingPage()
        let ids = ids[min(start, ids.count)..<min(start + limit, ids.count)]
        page.jobs = ids.enumerated().map { ($0.offset, ListedJob(id: $0.element)) }
        page.read = ids.count
        return page
    }

    /// A page of jobs as JSON. With a filter no more are looked at than its reach has, and no more are begun with after a moment;
    /// `next` says where to go on.
    func list(
        _ state: JobState, _ filter: JobFilter, from start: Int, limit: Int, _ reach: Reach
    ) async throws -> String {
        let total = try await queue.count(in: state)
        let matcher = JobMatcher(filter)
        let deadline = ContinuousClock.now + Self.patience
        var found: [ListedJob] = []
        var (position, step) = (start, Queue.leastInLine)
        var end: Int { start + (filter.isEmpty ? limit : found.isEmpty ? reach.inVain : reach.most) }
        reading: while position < end, found.count < limit, position == start || .now < deadline {
            let page = try await matches(filter, matcher, in: state, from: position, limit: min(step, end - position))
            if page.read == 0 {
                position = total
                break
            }
            step = page.next
            for (place, job) in page.jobs {
                found.append(job)
                if found.count == limit {
                    position += place + 1
                    break reading
                }
            }
            position += page.read
        }
        let hashes = try await queue.fields(JobJSON.lineFields, of: found.map(\.id))
        let lines = zip(found, hashes).map { JobJSON.line($0, state: state, $1) }
        var json = JSONObject()
        json.set("state", state.rawValue)
        json.set("total", total)
        json.set("examined", position - start)
        json.set("next", position < total ? position : nil)
        json.set("jobs", json: "[\(lines.joined(separator: ","))]")
        return json.text
    }

    /// The ids that match, at most `limit`, of all jobs in `state`; and whether that were all of them.
    func ids(
        in state: JobState, _ filter: JobFilter, limit: Int
    ) async throws -> (ids: [String], isWhole: Bool) {
        let matcher = JobMatcher(filter)
        var ids: [String] = []
        var (position, step) = (0, Queue.leastInLine)
        while !Task.isCancelled {
            let page = try await matches(filter, matcher, in: state, from: position, limit: step)
            if page.read == 0 { return (ids, true) }
            position += page.read
            step = page.next
            for (_, job) in page.jobs {
                guard ids.count < limit else { return (ids, false) }
                ids.append(job.id)
            }
        }
        return (ids, false)
    }
}
