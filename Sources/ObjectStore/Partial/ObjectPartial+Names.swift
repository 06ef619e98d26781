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
        var candidates = NameCandidates(partial: self, first: chosen, unnumbered: chosen)
        while let (name, isNumbered) = try await candidates.next() {
            guard let head = try await head(name.path) else { return name }
            switch collision(with: head, isNumbered: isNumbered) {
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
    func candidates(from first: ObjectName) -> NameCandidates {
        NameCandidates(partial: self, first: first, unnumbered: state.withLock { $0.unnumbered })
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

/// The names to try one after the other, while each is taken: the first one, and then the numbered ones.
struct NameCandidates {
    let partial: ObjectPartial
    let first: ObjectName
    let unnumbered: ObjectName
    /// The number of the last name; nil before the first one.
    private var number: Int?
    private var isSearched = false

    /// So many numbers are tried in order. A server may name thousands of files alike, and then the numbers in between are
    /// skipped. A job that is not new may have made one of these objects, and tries all numbers.
    private static let inOrder = 16

    init(partial: ObjectPartial, first: ObjectName, unnumbered: ObjectName) {
        (self.partial, self.first, self.unnumbered) = (partial, first, unnumbered)
    }

    mutating func next() async throws(TransferError) -> (name: ObjectName, isNumbered: Bool)? {
        guard var number else {
            self.number = first == unnumbered ? 0 : -1
            return (first, false)
        }
        repeat {
            number += 1
            if number > Self.inOrder, !isSearched, partial.request.isNew {
                isSearched = true
                number = try await freeNumber(after: number - 1)
            }
            guard number <= ObjectName.maxNumber else { return nil }
        } while unnumbered.numbered(number) == first
        self.number = number
        return (unnumbered.numbered(number), number > 0)
    }

    /// A number that is free, behind one that is not, with some twenty requests.
    private func freeNumber(after taken: Int) async throws(TransferError) -> Int {
        var (low, high) = (taken, 2 * taken)
        while try await isTaken(high) {
            guard high < ObjectName.maxNumber else { return high + 1 }
            (low, high) = (high, min(2 * high, ObjectName.maxNumber))
        }
        while high - low > 1 {
            let middle = (low + high) / 2
            if try await isTaken(middle) { low = middle } else { high = middle }
        }
        return high
    }

    private func isTaken(_ number: Int) async throws(TransferError) -> Bool {
        try await partial.head(unnumbered.numbered(number).path) != nil
    }
}
