import HaulBus
import HaulContract
import HaulRedis

/// Reads the jobs of a list in pages, and counts the jobs that the limit leaves out.
struct JobLister {
    var queue: Queue
    var filter = ListFilter()
    var order: JobOrder?
    var isReversed = false
    /// The maximum number of jobs of each state.
    var limit = 1000
    /// The id of the job after which the list begins.
    var after: String?

    /// The jobs of one state.
    struct Found {
        var rows: [JobRow] = []
        /// The number of matching jobs that are not in `rows`; nil if not all jobs have been read.
        var left: Int?
        /// Whether the job `after` was found. True without `after`.
        var hasBegun: Bool
    }

    func list(_ state: JobState) async throws(RedisError) -> Found {
        let now = try await queue.time()
        // Redis has no stable order of running jobs, and the queues of several partitions have none in common. So these
        // jobs are sorted by age.
        let isUnordered = state == .running || state == .queued && !queue.partitions.isEmpty
        if let order = order ?? (isUnordered ? .age : nil), order != .age || !Self.isInOrderOfAge(state) {
            return try await sorted(state, by: order, now)
        }
        let isBackwards = order == .age && (state == .scheduled) == isReversed
        var found = Found(hasBegun: after == nil)
        let lists = state == .queued ? try await queue.waitingLists() : WaitingLists()
        var start = 0
        var known: Set<String> = []
        while true {
            let page = try await queue.listed(
                in: state, from: start, limit: Queue.elementsOfPage, lists, isReversed: isBackwards)
            for row in try await rows(at: page, state) where known.insert(row.id).inserted {
                if !found.hasBegun {
                    found.hasBegun = row.id == after
                } else if filter.accepts(row, now: now) {
                    // One job beyond the limit shows that there are more.
                    guard found.rows.count < limit else {
                        found.left = try await left(of: state, found)
                        return found
                    }
                    found.rows.append(row)
                }
            }
            // A page may be short, because elements are claimed meanwhile.
            start += Queue.elementsOfPage
            guard state == .queued ? start < lists.count : page.count == Queue.elementsOfPage else { break }
        }
        found.left = 0
        return found
    }

    /// Whether the index of the state is sorted by the times at which its jobs entered it, or are due. Then an order by
    /// age costs what is listed, however many jobs there are.
    private static func isInOrderOfAge(_ state: JobState) -> Bool { state != .queued && state != .running }

    /// Calls `body` for each job of a state, in no particular order.
    func forEachRow(
        _ state: JobState, _ body: (JobRow) -> Void
    ) async throws(RedisError) {
        if !queue.partitions.isEmpty {
            for partition in queue.partitions {
                var lister = self
                lister.queue = partition
                try await lister.forEachRow(state, body)
            }
            return
        }
        if state == .running {
            let ids = try await queue.runningIDs()
            for start in stride(from: 0, to: ids.count, by: 500) {
                for row in try await rows(of: ids[start..<min(start + 500, ids.count)], state) { body(row) }
            }
            return
        }
        var known: Set<String> = []
        func pass(_ page: [ListedJob]) async throws(RedisError) {
            for row in try await rows(at: page, state) where known.insert(row.id).inserted { body(row) }
        }
        guard state == .queued else {
            var position = IndexPosition()
            let end = try await queue.end(of: state)
            while true {
                let limit = Queue.elementsOfPage
                let page = try await queue.listed(in: state, after: &position, until: end, limit: limit)
                try await pass(page)
                if page.count < limit { return }
            }
        }
        var cursor = WaitingCursor(queue)
        while let page = try await cursor.next(limit: Queue.elementsOfPage) { try await pass(page) }
    }

    private func sorted(_ state: JobState, by order: JobOrder, _ now: Int64) async throws(RedisError) -> Found {
        let precedes: (JobRow, JobRow) -> Bool = { isReversed ? order.precedes($1, $0) : order.precedes($0, $1) }
        var fitting: [JobRow] = []
        var count = 0
        try await forEachRow(state) { row in
            guard filter.accepts(row, now: now) else { return }
            count += 1
            fitting.append(row)
            // Keep only the first jobs in memory: there may be a million.
            if after == nil, fitting.count / 2 > max(limit, 5_000) {
                fitting = Array(fitting.sorted(by: precedes).prefix(limit))
            }
        }
        fitting.sort(by: precedes)
        var found = Found(hasBegun: true)
        if let after {
            let index = fitting.firstIndex { $0.id == after }
            found.hasBegun = index != nil
            fitting = index.map { Array(fitting[($0 + 1)...]) } ?? []
            count = fitting.count
        }
        found.rows = Array(fitting.prefix(limit))
        found.left = count - found.rows.count
        return found
    }

    private func rows(at page: [ListedJob], _ state: JobState) async throws(RedisError) -> [JobRow] {
        try await rows(of: page.map(\.id)[...], state, page)
    }

    /// - Parameter listed: What the index or the waiting lists have of each id. Several elements of one job may wait, and
    ///   each is judged by itself.
    private func rows(
        of ids: ArraySlice<String>, _ state: JobState, _ listed: [ListedJob]? = nil
    ) async throws(RedisError) -> [JobRow] {
        let fields = try await queue.fields(Queue.summaryFields + ListedJob.decisiveFields, of: ids)
        return zip(ids, fields).enumerated().compactMap { index, job in
            let entry = listed?[index]
            guard let fields = entry.map({ state.describing(job.1, $0) }) ?? job.1 else { return nil }
            // Leave out a job that has changed its state since the index was read.
            if let now = fields["state"].flatMap(JobState.init), now != state { return nil }
            return JobRow(id: job.0, state: state, fields: fields, listed: entry)
        }
    }

    private func left(
        of state: JobState, _ found: Found
    ) async throws(RedisError) -> Int? {
        guard filter.isEmpty, after == nil else { return nil }
        return max(1, try await queue.count(in: state) - found.rows.count)
    }
}
