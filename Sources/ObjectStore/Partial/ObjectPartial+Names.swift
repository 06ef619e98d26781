import HaulContract
import HaulHTTP
import HaulStorage
import Synchronization

// The name that the object gets, and what may have it already.
extension ObjectPartial {
    /// What is done about an object that has the name.
    enum Collision {
        /// It is this generation: a request was served whose answer was lost.
        case isOurs
        case replace
        /// Another name is to be tried.
        case renumber
        case refuse
    }

    /// - Parameter isOther: A number was added to the name.
    func collision(with head: ObjectHead, isOther: Bool) -> Collision {
        let isOfJob = head.mark?.job == request.key
        if isOfJob, head.mark?.generation == generation { return .isOurs }
        let isCompleted = request.completed.map { head.matches($0.identity) } ?? false
        // Put there by a run that nobody heard of. What this job completed under a number stays.
        let isUnsettled = isOfJob && !request.isNew
        if isOther ? isUnsettled && !isCompleted : isUnsettled || isCompleted { return .replace }
        if request.ifExists == .overwrite { return .replace }
        let isGiven = state.withLock { $0.name.isGiven }
        return request.ifExists == .rename || !isGiven && request.ifExists == .reuse ? .renumber : .refuse
    }

    /// The first name that may be used, as far as can be told before.
    func freeName(_ chosen: ObjectName) async throws(TransferError) -> ObjectName {
        if let own = await completedName(chosen) { return own }
        if request.ifExists == .overwrite { return chosen }
        for number in 0...ObjectName.mostNumber {
            let name = chosen.numbered(number)
            guard let head = try await head(name.path) else { return name }
            switch collision(with: head, isOther: number > 0) {
            case .isOurs, .replace: return name
            case .refuse: throw name.inTheWay
            case .renumber: continue
            }
        }
        throw chosen.inTheWay
    }

    /// One that the job finished before, and that had to take a number, is replaced and gets no company.
    private func completedName(_ chosen: ObjectName) async -> ObjectName? {
        guard let completed = request.completed, request.mayNumber else { return nil }
        let name = ObjectName(chosen: completed.file, isGiven: chosen.isGiven)
        guard name.folder == chosen.folder, FileName.isNumbered(name.name, of: chosen.name),
            let head = try? await head(name.path), head.matches(completed.identity)
        else { return nil }
        return name
    }

    func head(_ path: String) async throws(TransferError) -> ObjectHead? {
        do { return try await client.head(client.address.key(path)) } catch { throw error.error }
    }

    /// Whether this run may still give a name: by our own clock, or else by Redis'.
    func mayName() async -> Bool {
        if request.lease.isHeld() { return true }
        return await request.lease.confirm()
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
