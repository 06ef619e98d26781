import HaulBus

/// Records which claims of a queue are this worker's, and whether it may make more. It does not talk to Redis.
///
/// A registration returns every claim that it does not name to the queue. So a claim is in the ledger from before its
/// request until its settle is answered, and no claim is requested while a registration is in progress. After a failed
/// call, Redis may have made claims for this worker whose replies were lost, so the worker registers again before it
/// claims again.
struct ClaimLedger {
    /// The state of the queue in Redis' last reply.
    private(set) var gate = QueueGate.open
    /// The number of the last registration. Claims are made under it; under an earlier one they get nothing.
    private(set) var session = 0
    /// Redis and this worker may know different claims.
    private(set) var mayBeOutOfSync = false
    private var isRegistered = false
    private var registrations = 0
    /// The tokens of all claims that Redis may count as this worker's. A token never moves to another owner: a
    /// registration that missed it between two locks would let its job run twice.
    private var tokens: Set<String> = []

    var mayClaim: Bool { gate != .paused && gate != .quiet && isRegistered && !mayBeOutOfSync && registrations == 0 }

    var needsRegistration: Bool { !isRegistered || mayBeOutOfSync }

    // MARK: Claims

    /// Records that claims are about to be requested. False if the worker may not claim.
    mutating func begin(_ requested: some Sequence<String>) -> Bool {
        guard mayClaim else { return false }
        tokens.formUnion(requested)
        return true
    }

    /// Redis has answered: of the requested tokens only `claimed` have a job.
    mutating func end(_ requested: some Sequence<String>, claimed: some Sequence<String> = []) {
        tokens.subtract(Set(requested).subtracting(claimed))
    }

    /// It is unknown whether Redis has made these claims. The next registration does not name them, so it undoes them.
    mutating func lose(_ requested: some Sequence<String>) {
        tokens.subtract(requested)
        markOutOfSync()
    }

    /// The claim is settled, or another worker has it.
    mutating func forget(_ token: String) { tokens.remove(token) }

    // MARK: What Redis knows

    /// The worker claims no more jobs of the queue, because an operator has asked for that.
    var isQuiet: Bool { gate == .quiet }

    /// Records the state of the queue. True if the worker has become quiet, or is no longer quiet.
    @discardableResult
    mutating func record(_ gate: QueueGate) -> Bool {
        defer { self.gate = gate }
        return (self.gate == .quiet) != (gate == .quiet)
    }

    mutating func markOutOfSync() { mayBeOutOfSync = true }

    /// Begins a registration. Returns the tokens of the claims that it has to name.
    mutating func beginRegistration() -> [String] {
        mayBeOutOfSync = false
        registrations += 1
        // From here on a claim that Redis still receives over a lost connection gets nothing.
        session += 1
        return Array(tokens)
    }

    mutating func endRegistration(succeeded: Bool) {
        registrations -= 1
        if succeeded { isRegistered = true } else { mayBeOutOfSync = true }
    }
}
