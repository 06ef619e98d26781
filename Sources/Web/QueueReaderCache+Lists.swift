import HaulBus
import HaulContract
import HaulRedis

// Lists of jobs, with or without a filter.

extension QueueReaderCache {
    /// How many jobs one call examines for a filter: `most`, or `inVain` while none matches. An answer without jobs
    /// would only cost the page some milliseconds.
    struct Reach {
        let limit: Int
        let inVain: Int

        static let search = Reach(limit: 20_000, inVain: 100_000)
        /// A watched list is examined once a second, which would cost Redis more than a search.
        static let watch = Reach(limit: 2000, inVain: 2000)
    }

    /// A call that has taken this long examines no further jobs, so that the user soon sees what it has found.
    private static let maxTime: Duration = .milliseconds(150)

    /// How many jobs a call reads to sort them. Each costs Redis about a microsecond.
    private static let maxSorted = 2000

    /// The states in which a file may be there in part.
    private static let partial: Set<JobState> = [.running, .paused]

    /// The ids of running jobs. They are read once a second at most, and less often if there are many.
    func runningIDs() async throws -> [String] {
        if let running, running.readAt + .milliseconds(max(900, running.ids.count / 2)) > .now { return running.ids }
        let ids = try await queue.runningIDs()
        running = (ids, .now)
        return ids
    }

    /// Where the jobs of a state are listed.
    private enum Source {
        case waiting(WaitingLists)
        /// Ids that were read at once.
        case ids([ListedID])
        case index
    }

    /// A job of a list that was read at once. 100,000 of these are kept more cheaply than so many `ListedJob`s.
    struct ListedID: Sendable {
        let id: String
        /// When the job ended, unix ms; nil for a running one.
        var timestamp: Int64?

        var job: ListedJob { ListedJob(id: id, timestamp: timestamp) }
    }

    private func source(of state: JobState, _ filter: JobFilter) async throws -> Source {
        switch state {
        case .queued: return .waiting(try await queue.waitingLists())
        case .running: return .ids(try await runningIDs().map { ListedID(id: $0) })
        default:
            // The queue may have far more ended jobs than the batch, so only the batch's members are examined.
            guard let ended = BatchState(rawValue: state.rawValue), !filter.batch.isEmpty,
                let ids = try await endedMembers(of: filter.batch, in: ended)
            else { return .index }
            return .ids(ids)
        }
    }

    /// Examines `limit` jobs in `state`, from index `start` on. Returns how many there were, and the indices of the
    /// matching ones among them.
    ///
    /// - Parameter isReversed: Begin at the other end of the list.
    private func matches(
        _ matcher: JobMatcher, in state: JobState, _ source: Source, from start: Int, limit: Int,
        isReversed: Bool = false
    ) async throws -> WaitingPage {
        var page = WaitingPage()
        switch source {
        case .waiting(let lists) where isReversed:
            let end = max(0, lists.count - start)
            let count = min(limit, end)
            page = try await queue.waiting(in: lists, from: end - count, limit: count, that: matcher.mayMatch)
            page.jobs = page.jobs.reversed().map { (count - 1 - $0.position, $0.job) }
        case .waiting(let lists):
            page = try await queue.waiting(in: lists, from: start, limit: limit, that: matcher.mayMatch)
        case .ids(let ids): page = Self.page(of: isReversed ? ids.reversed() : ids, from: start, limit: limit)
        case .index:
            let listed = try await queue.listed(in: state, from: start, limit: limit, isReversed: isReversed)
            page.jobs = listed.enumerated().map { ($0.offset, $0.element) }
            page.read = page.jobs.count
        }
        page.jobs = try await matching(page.jobs, matcher, state)
        return page
    }

    /// Those of some jobs, which are listed in `state`, that match.
    private func matching(
        _ jobs: [(position: Int, job: ListedJob)], _ matcher: JobMatcher, _ state: JobState
    ) async throws -> [(position: Int, job: ListedJob)] {
        let deciding = state == .queued ? ListedJob.decisiveFields : []
        let values = try await queue.values(deciding + matcher.fields, of: jobs.map(\.job.id))
        return zip(jobs, values).filter { job, values in
            guard state == .queued else { return matcher.matches(job.job, values) }
            var known: [String: String] = [:]
            for (name, value) in zip(deciding, values) {
                known[name] = value.map { String(decoding: $0, as: UTF8.self) }
            }
            guard let described = state.describing(known, job.job) else { return false }
            // The hash may tell of the job's last end, and not of the push that waits.
            let isOfLastEnd = described.isEmpty && !known.isEmpty
            let compared = values.dropFirst(deciding.count)
            return matcher.matches(job.job, isOfLastEnd ? compared.map { _ in nil } : Array(compared))
        }.map(\.0)
    }

    private static func page(of ids: [ListedID], from start: Int, limit: Int) -> WaitingPage {
        var page = WaitingPage()
        let ids = ids[min(start, ids.count)..<min(start + limit, ids.count)]
        page.jobs = ids.enumerated().map { ($0.offset, $0.element.job) }
        page.read = ids.count
        return page
    }

    /// A page of jobs as JSON. With a filter, one call examines no more jobs than `reach` says, and none after
    /// `maxTime`. `next` says where to continue.
    func list(
        _ state: JobState, _ filter: JobFilter, from start: Int, limit: Int, _ reach: Reach, isReversed: Bool
    ) async throws -> String {
        let source = try await source(of: state, filter)
        let total = try await total(of: state, source)
        let matcher = JobMatcher(filter, now: filter.older > 0 ? try await queue.time() : 0)
        let deadline = ContinuousClock.now + Self.maxTime
        var found: [ListedJob] = []
        var (position, step) = (start, Queue.minPageOfElements)
        var end: Int { start + (filter.isEmpty ? limit : found.isEmpty ? reach.inVain : reach.limit) }
        reading: while position < end, found.count < limit, position == start || .now < deadline {
            let page = try await matches(
                matcher, in: state, source, from: position, limit: min(step, end - position), isReversed: isReversed)
            if page.read == 0 {
                position = max(start, total)
                break
            }
            step = page.next
            for (index, job) in page.jobs {
                found.append(job)
                if found.count == limit {
                    position += index + 1
                    break reading
                }
            }
            position += page.read
        }
        return Self.json(
            state, total: total, examined: position - start, next: position < total ? position : nil,
            try await rows(of: found, state))
    }

    private func total(of state: JobState, _ source: Source) async throws -> Int {
        if case .waiting(let lists) = source { return lists.count }
        return try await queue.count(in: state)
    }

    private static func json(_ state: JobState?, total: Int, examined: Int, next: Int?, _ rows: [String]) -> String {
        var json = JSONObject()
        json.set("state", state?.rawValue)
        json.set("total", total)
        json.set("examined", examined)
        json.set("next", next)
        json.set("jobs", json: "[\(rows.joined(separator: ","))]")
        return json.text
    }

    /// A page of sorted jobs as JSON. No index of Redis has the order, so the first `maxSorted` jobs of the list are read
    /// and sorted here: the newest of those that have ended, and the next of those that wait. `examined` says how many.
    func list(
        _ state: JobState, _ filter: JobFilter, by order: JobOrder, isReversed: Bool, from start: Int, limit: Int
    ) async throws -> String {
        let source = try await source(of: state, filter)
        let total = try await total(of: state, source)
        let matcher = JobMatcher(filter, now: filter.older > 0 ? try await queue.time() : 0)
        let page = try await matches(matcher, in: state, source, from: 0, limit: Self.maxSorted)
        let jobs = page.jobs.map(\.job)
        let fields =
            order.fields.isEmpty ? jobs.map { _ in [:] } : try await queue.fields(order.fields, of: jobs.map(\.id))
        let sorted = zip(jobs, fields).map { JobRow(id: $0.id, state: state, fields: $1, listed: $0) }
            .sorted { isReversed ? order.precedes($1, $0) : order.precedes($0, $1) }
        let part = sorted.dropFirst(start).prefix(limit).map(\.listed)
        return Self.json(
            state, total: total, examined: page.read, next: start + limit < sorted.count ? start + limit : nil,
            try await rows(of: part, state))
    }

    private func rows(of jobs: [ListedJob], _ state: JobState) async throws -> [String] {
        let ids = jobs.map(\.id)
        let hashes = try await queue.fields(JobRecord.rowFields + ListedJob.decisiveFields, of: ids)
        let offsets = Self.partial.contains(state) ? try await queue.offsets(of: ids) : []
        var rows: [String] = []
        for (index, job) in zip(jobs, hashes).enumerated() {
            let intervals = index < offsets.count ? offsets[index] : ByteIntervals()
            // A worker may have claimed the job meanwhile.
            var fields = state.describing(job.1, job.0) ?? job.1
            for name in ListedJob.decisiveFields where !JobRecord.rowFields.contains(name) { fields[name] = nil }
            let record = JobRecord(job: job.0, state: state, fields: fields, offsets: JobRecord.merged(intervals))
            rows.append(
                try await current(record).json(
                    showsResponse: false, timestamp: state == .running ? nil : job.0.timestamp))
        }
        return rows
    }

    /// The jobs of a URL that match the rest of the filter, in `state` or in any. A job without a hash is queued.
    private func jobs(
        _ filter: JobFilter, in state: JobState?, searchesWaiting: Bool = true
    ) async throws -> [(job: ListedJob, state: JobState)] {
        let found = try await queue.jobs(ofURLs: [filter.url], searchesWaiting: searchesWaiting)
        let ids = found.ids[filter.url] ?? []
        let known = try await queue.fields(["state", "finished", "updated"], of: ids)
        var others = filter
        others.url = ""
        let matcher = JobMatcher(others, now: try await queue.time())
        let values = try await queue.values(matcher.fields, of: ids)
        var jobs: [(ListedJob, JobState)] = []
        for ((id, fields), hashed) in zip(zip(ids, known), values) {
            let known = fields["state"].map { JobState(rawValue: $0) } ?? .queued
            // A push that waits may begin an ended job anew.
            let its = known?.isFinal == true && found.waiting[id] != nil ? .queued : known
            let timestamp = Int64(field: fields["finished"] ?? fields["updated"])
            let waiting = its == .queued ? found.waiting[id] : nil
            let values = its == known ? hashed : matcher.fields.map { _ in nil }
            let job = waiting ?? ListedJob(id: id, timestamp: timestamp)
            guard let its, state ?? its == its, matcher.matches(job, values) else { continue }
            jobs.append((job, its))
        }
        return jobs
    }

    /// A page of the jobs of a URL as JSON.
    ///
    /// - Parameter searchesWaiting: False to leave out jobs that no worker has claimed yet.
    func list(
        _ filter: JobFilter, in state: JobState?, by order: JobOrder?, isReversed: Bool, from start: Int, limit: Int,
        searchesWaiting: Bool
    ) async throws -> String {
        var found = try await jobs(filter, in: state, searchesWaiting: searchesWaiting)
        if let order {
            let fields = try await queue.fields(order.fields, of: found.map(\.job.id))
            found = zip(found, fields)
                .map { (found: $0, row: JobRow(id: $0.job.id, state: $0.state, fields: $1, listed: $0.job)) }
                .sorted { isReversed ? order.precedes($1.row, $0.row) : order.precedes($0.row, $1.row) }.map(\.found)
        } else if isReversed {
            found.reverse()
        }
        var rows: [String] = []
        for (job, state) in found.dropFirst(start).prefix(limit) { rows += try await self.rows(of: [job], state) }
        return Self.json(
            state, total: found.count, examined: found.count, next: start + limit < found.count ? start + limit : nil,
            rows)
    }

    /// The ids of all jobs in `state` that match, at most `limit`; and whether these are all. Without a state the filter
    /// has a URL. Jobs for which `operation` waits already are left out, so that a caller who repeats a call with a limit
    /// comes to an end, although waiting jobs stay in the queue until a worker claims them. Nothing that was read before
    /// the call is used, because jobs that began since would be left out. A job that is in the state all the time is among
    /// them, even if others leave the state during the call.
    func ids(
        in state: JobState?, _ filter: JobFilter, limit: Int, for operation: ControlOperation
    ) async throws -> (ids: [String], isWhole: Bool) {
        (running, members) = (nil, [:])
        guard filter.url.isEmpty, let state else {
            var ids: [String] = []
            for (job, state) in try await jobs(filter, in: state) {
                ids += try await queue.jobs([job], in: state, without: operation).map(\.id)
            }
            return (Array(ids.prefix(limit)), ids.count <= limit)
        }
        let matcher = JobMatcher(filter, now: filter.older > 0 ? try await queue.time() : 0)
        var found = UniqueIDs(limit: limit)
        var (pass, step) = (try await pass(of: state, filter), Queue.minPageOfElements)
        while !Task.isCancelled {
            guard let page = try await pass.next(limit: step, matcher) else { return (found.ids, true) }
            step = page.next
            let matching = try await matching(page.jobs, matcher, state)
            let jobs = try await queue.jobs(matching.map(\.job), in: state, without: operation)
            guard found.add(jobs) else { return (found.ids, false) }
        }
        return (found.ids, false)
    }

    /// A way through the jobs of a state, which leaves out none that is in the state all the time.
    private struct Pass {
        enum Position {
            case waiting(WaitingCursor)
            case index(IndexPosition, until: Int64?)
            /// Ids that were read at once, without those that were passed.
            case ids(ArraySlice<ListedID>)
        }

        let queue: Queue
        let state: JobState
        var position: Position

        /// At most `limit` jobs, of which those with an element that cannot match are left out. nil at the end.
        mutating func next(limit: Int, _ matcher: JobMatcher) async throws(RedisError) -> WaitingPage? {
            var page = WaitingPage(read: limit)
            switch position {
            case .waiting(var cursor):
                // So that what the cursor has read is not copied.
                position = .ids([])
                defer { position = .waiting(cursor) }
                return try await cursor.next(limit: limit, that: matcher.mayMatch)
            case .index(var index, let end):
                page.jobs = try await queue.listed(in: state, after: &index, until: end, limit: limit).map { (0, $0) }
                position = .index(index, until: end)
            case .ids(let ids):
                page.jobs = ids.prefix(limit).map { (0, $0.job) }
                position = .ids(ids.dropFirst(limit))
            }
            return page.jobs.isEmpty ? nil : page
        }
    }

    private func pass(of state: JobState, _ filter: JobFilter) async throws -> Pass {
        var pass = Pass(queue: queue, state: state, position: .waiting(WaitingCursor(queue)))
        guard state != .queued else { return pass }
        if case .ids(let ids) = try await source(of: state, filter) {
            // As in an index, those that have been in the state for longest come first.
            pass.position = .ids(Array(ids.reversed())[...])
        } else {
            pass.position = .index(IndexPosition(), until: try await queue.end(of: state))
        }
        return pass
    }

    /// The ids of jobs, each once, up to a limit.
    private struct UniqueIDs {
        let limit: Int
        private(set) var ids: [String] = []
        private var known: Set<String> = []

        init(limit: Int) { self.limit = limit }

        /// Returns whether the limit has left out none.
        mutating func add(_ jobs: [ListedJob]) -> Bool {
            for job in jobs where !known.contains(job.id) {
                guard ids.count < limit else { return false }
                known.insert(job.id)
                ids.append(job.id)
            }
            return true
        }
    }

    /// Those of some jobs that are in one of the `wanted` states now, in their order. A job without a hash is queued.
    func ids(_ ids: [String], in wanted: Set<JobState>) async throws -> [String] {
        let hashes = try await queue.fields(["state"], of: ids)
        let states = Dictionary(zip(ids, hashes.map { $0["state"] ?? JobState.queued.rawValue })) { $1 }
        var found = Set(states.filter { JobState(rawValue: $0.value).map(wanted.contains) ?? false }.keys)
        // A newer push of a job that has ended may wait.
        let ended = Set(states.filter { JobState(rawValue: $0.value)?.isFinal == true }.keys)
        if wanted.contains(.queued), !ended.isEmpty { found.formUnion(try await queue.waiting(for: ended).keys) }
        return ids.filter(found.contains)
    }
}
