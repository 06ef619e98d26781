import HaulBus
import HaulContract
import HaulRedis

// Lists of jobs, with or without a filter.

extension QueueReaderCache {
    /// How many jobs one call examines for a filter: `most`, or `inVain` while none matches. An answer without jobs
    /// would only cost the page some milliseconds.
    struct Reach {
        let most: Int
        let inVain: Int

        static let search = Reach(most: 20_000, inVain: 100_000)
        /// A watched list is examined once a second, which would cost Redis more than a search.
        static let watch = Reach(most: 2000, inVain: 2000)
    }

    /// A call that has taken this long examines no further jobs, so that the user soon sees what it has found.
    private static let patience: Duration = .milliseconds(150)

    /// The states in which a file may be there in part.
    private static let partial: Set<JobState> = [.running, .paused]

    /// The ids of running jobs. They are read once a second at most, and less often if there are many.
    func runningIDs() async throws -> [String] {
        if let running, running.read + .milliseconds(max(900, running.ids.count / 2)) > .now { return running.ids }
        let ids = try await queue.runningIDs()
        running = (ids, .now)
        return ids
    }

    /// Examines `limit` jobs in `state`, from index `start` on. Returns how many there were, and the places of the
    /// matching ones among them.
    private func matches(
        _ filter: JobFilter, _ matcher: JobMatcher, in state: JobState, _ lists: WaitingLists, from start: Int,
        limit: Int
    ) async throws -> WaitingPage {
        var page = WaitingPage()
        switch state {
        case .queued:
            page = try await queue.waiting(in: lists, from: start, limit: limit, that: matcher.mayMatch)
        case .running:
            page = Self.page(of: try await runningIDs(), from: start, limit: limit)
        default:
            // The queue may have far more ended jobs than the batch, so only the batch's members are examined.
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

    /// A page of jobs as JSON. With a filter, one call examines no more jobs than `reach` says, and none after
    /// `patience`. `next` says where to continue.
    func list(
        _ state: JobState, _ filter: JobFilter, from start: Int, limit: Int, _ reach: Reach
    ) async throws -> String {
        let lists = state == .queued ? try await queue.waitingLists() : WaitingLists()
        let total = state == .queued ? lists.count : try await queue.count(in: state)
        let matcher = JobMatcher(filter)
        let deadline = ContinuousClock.now + Self.patience
        var found: [ListedJob] = []
        var (position, step) = (start, Queue.minPageOfElements)
        var end: Int { start + (filter.isEmpty ? limit : found.isEmpty ? reach.inVain : reach.most) }
        reading: while position < end, found.count < limit, position == start || .now < deadline {
            let page = try await matches(
                filter, matcher, in: state, lists, from: position, limit: min(step, end - position))
            if page.read == 0 {
                position = max(start, total)
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
        let hashes = try await queue.fields(JobJSON.rowFields, of: found.map(\.id))
        let offsets = Self.partial.contains(state) ? try await queue.offsets(of: found.map(\.id)) : []
        let rows = zip(found, hashes).enumerated().map { place, job in
            JobJSON.row(job.0, state: state, job.1, place < offsets.count ? offsets[place] : nil)
        }
        var json = JSONObject()
        json.set("state", state.rawValue)
        json.set("total", total)
        json.set("examined", position - start)
        json.set("next", position < total ? position : nil)
        json.set("jobs", json: "[\(rows.joined(separator: ","))]")
        return json.text
    }

    /// The ids of all jobs in `state` that match, at most `limit`; and whether these are all.
    func ids(
        in state: JobState, _ filter: JobFilter, limit: Int
    ) async throws -> (ids: [String], isWhole: Bool) {
        let matcher = JobMatcher(filter)
        let lists = state == .queued ? try await queue.waitingLists() : WaitingLists()
        var ids: [String] = []
        var (position, step) = (0, Queue.minPageOfElements)
        while !Task.isCancelled {
            let page = try await matches(filter, matcher, in: state, lists, from: position, limit: step)
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
