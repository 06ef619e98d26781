import HaulContract
import HaulExecutors
import HaulHTTP
import HaulStorage
import Synchronization

// The request that creates the finished object. The network may deliver it late, after another run has finished the
// job. Therefore it expires, it replaces only the object that was read before, and it is never repeated without reading
// that again.
extension ObjectPartial {
    enum Naming {
        case placed(ObjectHead)
        /// Another run has the job.
        case fenced
        /// Another object has the name, and the job allows a number.
        case renumber
        /// A deletion that an earlier run had sent has removed the object.
        case deleted
    }

    /// How a request gives the name.
    enum NamingRequest {
        case put, complete

        /// The kind of a request with this condition; nil if it has none.
        func conditional(_ condition: NameCondition) -> ConditionalRequest? {
            switch condition {
            case .none: nil
            case .absent: self == .put ? .create : .complete
            case .same: self == .put ? .replace : .complete
            }
        }
    }

    /// The condition, unless the server has said that it does not know it.
    private func known(_ condition: NameCondition, by method: NamingRequest) -> NameCondition {
        method.conditional(condition).map(store.knows) ?? false ? condition : .none
    }

    /// A request that got no response, and may still be executed.
    struct Unanswered: Sendable {
        let key: String
        let until: ContinuousClock.Instant
        /// The request replaces another object. So a deletion of its own would leave no object under the name.
        let isReplacing: Bool
    }

    /// How long a server that has accepted a request may take to execute it.
    static let executionLimit = Duration.seconds(30)
    /// How long a server may contradict itself: HEAD shows an object later than conditions do.
    static let contradictionLimit = Duration.seconds(15)

    /// Limits for repeated requests: `tries` in general, and `busy` while the server responds with 5xx.
    struct NamingLimits: Sendable {
        var tries = RequestBackoff.tries
        var maxTime = RequestBackoff.maxTime
        var busy = RequestBackoff.maxTime
    }

    /// Sends `request` until its result is known. Before each try the lease must hold, and the object that has the name
    /// determines the condition.
    ///
    /// An earlier run may have sent a deletion of the object that is replaced (`withdraw`), on the condition of its ETag,
    /// which is the same on most servers if the bytes are the same. So if such a deletion is possible, this waits until
    /// it has expired. If the object is gone then, a PUT gives the name again. An upload cannot be completed twice, so
    /// that the result is `deleted`.
    ///
    /// - Parameters:
    ///   - method: What `request` sends.
    ///   - isNumbered: True if a number was added to the name.
    ///   - checksFirst: Whether HEAD precedes the first try. If not, If-None-Match shows that the name is taken.
    ///   - claim: Acquired before the name is checked. It must still be valid when the request is sent.
    ///   - size: The object's.
    ///   - isPossible: Called before each try. The result ends the tries, unless it is nil.
    ///   - request: Returns the object; nil if that does not exist after all.
    func nameObject(
        _ name: ObjectName, by method: NamingRequest, size: Int64, isNumbered: Bool, checksFirst: Bool,
        claim: NameClaim? = nil,
        limits: NamingLimits = NamingLimits(),
        isPossible: () async throws(TransferError) -> Naming? = { () throws(TransferError) in nil },
        _ request: (NameCondition) async throws(StoreError) -> ObjectHead?
    ) async throws(TransferError) -> Naming {
        var mayBeDeleted = false
        let naming = try await giveName(
            name, by: method, size: size, isNumbered: isNumbered, checksFirst: checksFirst, claim: claim,
            limits: limits, mayBeDeleted: &mayBeDeleted, isPossible: isPossible, request)
        guard mayBeDeleted, case .placed = naming, await isDeletedLate(name) else { return naming }
        guard method == .put else { return .deleted }
        return try await giveName(
            name, by: method, size: size, isNumbered: isNumbered, checksFirst: true, claim: claim, limits: limits,
            mayBeDeleted: &mayBeDeleted, isPossible: isPossible, request)
    }

    /// - Parameter mayBeDeleted: Set if an earlier deletion may remove the new object.
    private func giveName(
        _ name: ObjectName, by method: NamingRequest, size: Int64, isNumbered: Bool, checksFirst: Bool,
        claim: NameClaim?, limits: NamingLimits, mayBeDeleted: inout Bool,
        isPossible: () async throws(TransferError) -> Naming?,
        _ request: (NameCondition) async throws(StoreError) -> ObjectHead?
    ) async throws(TransferError) -> Naming {
        let key = client.address.key(name.path)
        let begun = ContinuousClock.now
        var condition = known(.absent, by: method)
        var failure: StoreError?
        var contradicted: ContinuousClock.Instant?
        var (isReplacing, isBare) = (false, false)
        for attempt in 1... {
            // Before the checks, because a store that throttles may make this wait for minutes.
            do { try await client.waitForTurn() } catch { throw error.transferError }
            // The last pause may have been long. A run that has lost its job by now must leave the claim and the partial
            // file to the one that has it.
            guard try await hasJob() else { return .fenced }
            if let end = try await isPossible() { return end }
            await claim?.acquire()
            if checksFirst || attempt > 1 {
                let next: NameCondition
                if let head = try await head(name.path) {
                    switch collision(with: head, isNumbered: isNumbered) {
                    case .isOurs: return .placed(head)
                    case .renumber: return .renumber
                    case .refuse: throw conflict(at: name)
                    case .replace:
                        (next, isReplacing) = (head.etag.map(NameCondition.same) ?? .none, true)
                        mayBeDeleted = mayBeDeleted || mayBeDeletedLate(head, size)
                    }
                } else {
                    (next, isReplacing) = (.absent, false)
                }
                let isContradiction = failure?.kind == .precondition && next == condition
                contradicted = isContradiction ? contradicted ?? .now : nil
                if let contradicted {
                    if case .same = next { client.toggleETagQuotes(from: isBare) }
                    guard ContinuousClock.now - contradicted < Self.contradictionLimit else {
                        throw .failed(
                            Failure(
                                .io,
                                "the object store refuses \(name.path), and does not show which object has that name"))
                    }
                }
                condition = known(next, by: method)
            }
            guard try await hasJob() else { return .fenced }
            do throws(StoreError) {
                try claim?.check()
                isBare = client.sendsBareETags
                let sent = try await sendRecorded(key, isReplacing: isReplacing) { () throws(StoreError) in
                    try await request(condition)
                }
                if let head = sent {
                    return .placed(head)
                }
                failure = nil
            } catch { failure = error }
            let unknown = failure?.kind == .unknownRequest ? method.conditional(condition) : nil
            if let unknown { store.lacks(unknown) }
            switch failure?.kind {
            case .unknownRequest where unknown != nil: break
            case .unknownRequest, .denied, .noSuchBucket, .full, .cancelled, .permanent: throw failure!.transferError
            // Servers disagree about If-Match if there is no object.
            case .noSuchObject where condition == .absent || condition == .none: throw failure!.transferError
            default: break
            }
            let isBusy = failure.map { $0.status >= 500 || $0 == .claimed } ?? false
            let waited = ContinuousClock.now - begun
            guard
                contradicted != nil || attempt < limits.tries && waited < limits.maxTime
                    || isBusy && waited < limits.busy
            else {
                if failure == .claimed {
                    throw .failed(
                        Failure(
                            .io,
                            "another job has claimed \(name.path), and has not completed it for "
                                + "\(waited.components.seconds) s: if its worker has died, the claim ends after "
                                + "\(NameClaim.staleness / 60) minutes"))
                }
                throw failure?.transferError ?? .failed(Failure(.io, "the object store does not create \(name.path)"))
            }
            // The first failed condition only means that another object has the name.
            if attempt == 1, [.precondition, .unknownRequest].contains(failure?.kind) { continue }
            let pause = min(Duration.seconds(10), .milliseconds(50 << min(attempt, 10)))
            do { try await Task.sleep(for: pause) } catch { throw .cancelled }
        }
        return .fenced
    }

    /// Whether a deletion of the object may still be under way: an earlier run of this job made it and was cancelled, and
    /// the job was pushed again. If Redis knows of no such run, only a job that was removed since can have sent one.
    private func mayBeDeletedLate(_ head: ObjectHead, _ size: Int64) -> Bool {
        head.mark?.job == request.key && head.size == size
            && request.completed.map { head.matches($0.identity) } != true
            && (!request.isNew || head.age ?? 0 < Self.withdrawalLimit)
    }

    /// Seconds after which no deletion by `withdraw` of an object of that age is under way: it lasts for
    /// `executionLimit`, and its last request has expired then.
    private static let withdrawalLimit: Int64 = 60

    /// Waits until earlier requests to delete the object have expired. Returns whether it is gone then. A run that is
    /// stopped meanwhile has its object, so it does not wait.
    private func isDeletedLate(_ name: ObjectName) async -> Bool {
        do {
            try await Task.sleep(for: ObjectStore.expiry)
            return try await head(name.path) == nil
        } catch { return false }
    }

    /// Sends a request for a key, and records it as unanswered until it is known that it will not be executed later.
    private func sendRecorded(
        _ key: String, isReplacing: Bool, _ request: () async throws(StoreError) -> ObjectHead?
    ) async throws(StoreError) -> ObjectHead? {
        state.withLock { state in
            state.unanswered.append(
                Unanswered(key: key, until: .now + Self.executionLimit, isReplacing: isReplacing))
            if isReplacing { state.mayHaveReplaced = true }
        }
        do throws(StoreError) {
            let head = try await request()
            if head != nil { state.withLock { _ = $0.unanswered.popLast() } }
            return head
        } catch {
            // The server has refused it.
            if (400..<500).contains(error.status) { state.withLock { _ = $0.unanswered.popLast() } }
            throw error
        }
    }

    /// Removes objects of this generation that requests without a response still make after the job was cancelled or
    /// removed. An object that replaces another one stays: the other one is lost, perhaps a completed job's, and the name
    /// would have no object at all.
    func withdraw() {
        let waiting = state.withLock { state in
            defer { state.unanswered = [] }
            return state.phase == .placed ? [] : state.unanswered.filter { !$0.isReplacing }
        }
        guard let until = waiting.map(\.until).max() else { return }
        store.withdraw(Set(waiting.map(\.key)), of: hidden, until: until)
    }

    /// Records the name that a request without a response may still give, for the removal of a job that is cancelled
    /// after this run has ended. Returns whether there is such a request.
    func recordNaming() async -> Bool {
        let last = state.withLock { state in
            state.phase == .placed ? nil : state.unanswered.last { $0.until > .now && !$0.isReplacing }
        }
        guard let last else { return false }
        state.withLock { $0.hasHidden = true }
        try? await client.put(client.address.key(hidden.naming), text: last.key)
        return true
    }
}
