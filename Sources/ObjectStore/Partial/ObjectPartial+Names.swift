import HaulContract
import HaulHTTP
import HaulStorage
import Synchronization

// The object's final name, and what to do with an object that already has it.
extension ObjectPartial {
    /// What to do with an object that already has the name.
    enum Collision {
        /// The object is of this generation: an earlier request succeeded, but its response was lost.
        case isOurs
        case replace
        /// Try the next numbered name.
        case renumber
        case refuse
    }

    /// - Parameter isNumbered: True if a number was added to the name.
    func collision(with head: ObjectHead, isNumbered: Bool) -> Collision {
        let belongsToJob = head.mark?.job == request.key
        if belongsToJob, head.mark?.generation == generation { return .isOurs }
        let isCompleted = request.completed.map { head.matches($0.identity) } ?? false
        // An earlier run of this job made the object, and Redis does not know its result: that did not arrive, or was
        // lost, perhaps with the claim of that run. An object that the job completed under a numbered name stays.
        if isNumbered ? belongsToJob && !isCompleted : belongsToJob || isCompleted { return .replace }
        if request.ifExists == .overwrite { return .replace }
        let isGiven = state.withLock { $0.name.isGiven }
        return request.ifExists == .rename || !isGiven && request.ifExists == .reuse ? .renumber : .refuse
    }

    func conflict(at name: ObjectName) -> TransferError { .failed(request.conflict(at: name.path)) }

    /// The first name that is free or may be replaced now. Another program may still take the name before the commit.
    ///
    /// - Throws: `file_exists` if the job allows no name.
    func freeName(_ chosen: ObjectName) async throws(TransferError) -> ObjectName {
        if let own = await completedName(chosen) { return own }
        if request.ifExists == .overwrite { return chosen }
        for number in 0...ObjectName.maxNumber {
            let name = chosen.numbered(number)
            guard let head = try await head(name.path) else { return name }
            switch collision(with: head, isNumbered: number > 0) {
            case .isOurs, .replace: return name
            case .refuse: throw conflict(at: name)
            case .renumber: continue
            }
        }
        throw conflict(at: chosen)
    }

    /// The numbered name that this job's previous file has, if that object is unchanged. It is replaced, so that the
    /// new object needs no further number.
    private func completedName(_ chosen: ObjectName) async -> ObjectName? {
        guard let completed = request.completed, request.mayNumber else { return nil }
        let name = ObjectName(chosen: completed.file, isGiven: chosen.isGiven)
        guard name.folder == chosen.folder, FileName.isNumbered(name.name, of: chosen.name),
            let head = try? await head(name.path), head.matches(completed.identity)
        else { return nil }
        return name
    }

    /// The names to try for an object that is complete: the one that was chosen before, and then the numbered ones.
    func candidates(from first: ObjectName) -> some Sequence<(name: ObjectName, isNumbered: Bool)> {
        let unnumbered = state.withLock { $0.unnumbered }
        return (-1...ObjectName.maxNumber).lazy.compactMap { number in
            if number < 0 { return (first, false) }
            let name = unnumbered.numbered(number)
            return name == first ? nil : (name, number > 0)
        }
    }

    func head(_ path: String) async throws(TransferError) -> ObjectHead? {
        do { return try await client.head(client.address.key(path)) } catch { throw error.transferError }
    }

    /// Whether this run has the job and, if there are hidden objects, these as well.
    func hasJob() async throws(TransferError) -> Bool {
        // The lease last, because the other request may wait while the store throttles.
        if state.withLock({ $0.hasHidden }), try await !isStillOwner() { return false }
        return await request.lease.holds()
    }

    /// Discards the partial file, unless another run goes on with it.
    func discardOwn() async {
        if (try? await hasJob()) != false { await discard(soon: false) }
    }

    func stored(_ head: ObjectHead, checksum: String?) -> CommitOutcome {
        state.withLock { state in
            state.phase = .placed
            return .stored(
                StoredFile(
                    file: state.name.path, bytes: head.size, identity: head.mark?.identity ?? 0,
                    modified: head.mark?.time ?? 0, checksum: checksum))
        }
    }
}
