import HaulBus
import HaulRedis

/// The wait for one job's end.
struct ResultWait {
    let handle: JobHandle
    let deadline: ContinuousClock.Instant?

    /// The interval at which the hash is read even if no event arrives.
    static let pollInterval = Duration.seconds(15)

    func result() async throws(HaulError) -> JobResult {
        let messages = handle.queue.subscription(to: [handle.id]).makeAsyncIterator()
        var known: JobStatus?
        // Reads the hash before the subscription is confirmed, because a job that has ended already needs no wait.
        switch try await readUntilDeadline(wasKnown: false) {
        case .ended(let status): return JobResult(status)
        case .removed: return JobResult(removed: handle.id)
        case .open(let status): known = status
        }
        var nextRead = ContinuousClock.now + Self.pollInterval
        while true {
            let element = await messages.next(until: min(nextRead, deadline ?? nextRead))
            if messages.isFinished { throw .closed }
            if Task.isCancelled { throw .cancelled }
            if element == nil, let deadline, deadline <= .now { throw await timedOut(known) }
            guard try await requiresRead(element) else { continue }
            nextRead = .now + Self.pollInterval
            // A removal publishes the job's end, and then forgets the job.
            switch try await readUntilDeadline(wasKnown: known != nil || element?.isEnd ?? false) {
            case .ended(let status): return JobResult(status)
            case .removed: return JobResult(removed: handle.id)
            case .open(let status): known = status ?? known
            }
            // The event of a rejection may have been published before the subscription.
            if element.map(\.isSubscribed) ?? true { try await checkRejected() }
        }
    }

    /// Reads the job's hash. Retries until the deadline while Redis is unreachable.
    private func readUntilDeadline(wasKnown: Bool) async throws(HaulError) -> JobHandle.EndState {
        try await retryingWhileUnreachable(until: deadline) { () throws(HaulError) in
            try await handle.readEndState(wasKnown: wasKnown)
        }
    }

    /// Whether the hash must be read after `element`, which is nil if the interval has passed without a message.
    ///
    /// - Throws: `.rejected` if the job's push was rejected, and `.refused` if the user may not subscribe.
    private func requiresRead(_ element: Subscription.Element?) async throws(HaulError) -> Bool {
        switch element {
        case nil, .subscribed: return true
        case .interrupted(let error):
            let error = HaulError(error)
            if error.code == .refused { throw error }
            return false
        case .message(_, let payload):
            guard let event = Event(payload) else { return false }
            if event.kind == .rejected { try await checkRejected(event) }
            return event.finalState != nil || event.kind == .duplicate
        }
    }

    /// - Throws: `.rejected` if the push was rejected.
    private func checkRejected(_ event: Event? = nil) async throws(HaulError) {
        let rejection = try await retryingWhileUnreachable(until: deadline) { () throws(HaulError) in
            try await handle.rejection(event)
        }
        if let rejection { throw HaulError(.rejected, rejection["reason"]?.string ?? "") }
    }

    private func timedOut(_ known: JobStatus?) async -> HaulError {
        let what = known.map { "job \(handle.id) is \($0.state.rawValue)" } ?? "no worker has seen job \(handle.id)"
        let workers = try? await handle.queue.queue.workerCount()
        let why = workers == 0 ? ", and no worker serves the queue \(handle.queue.name)" : ""
        return HaulError(.timedOut, "\(what) when the timeout ended\(why)")
    }
}

extension Subscription.Element {
    /// Whether it is an event of a job's end.
    fileprivate var isEnd: Bool {
        if case .message(_, let payload) = self { Event(payload)?.finalState != nil } else { false }
    }
    fileprivate var isSubscribed: Bool { if case .subscribed = self { true } else { false } }
}
