import HaulBus

/// Which of a queue's claims are this worker's, and whether it may make more: a value, without Redis.
///
/// A registration puts back every claim that it does not name. So a claim is in the ledger from before it is asked for until
/// its settling is heard of, and none is asked for while a registration is under way. After any doubt about the connection
/// Redis may count claims as ours that we never heard of, and the worker registers anew before it claims again.
struct ClaimLedger<Entry> {
    /// What Redis said last of the queue.
    private(set) var gate = QueueGate.open
    /// The number of the last registration: claims are made under it, and those of an earlier one get nothing.
    private(set) var session = 0
    /// Redis and this worker may know different claims.
    private(set) var isInDoubt = false
    private var isRegistered = false
    private var registrations = 0
    /// Runs by the tokens of their claims.
    private(set) var runs: [String: Entry] = [:]
    /// Tokens of claims that no run is entered for: asked for, or being settled.
    private var pending: Set<String> = []

    var mayClaim: Bool { gate != .paused && gate != .quiet && isRegistered && !isInDoubt && registrations == 0 }

    var needsRegistration: Bool { !isRegistered || isInDoubt }

    // MARK: Claims

    /// Notes that claims are about to be asked for; false if none may be.
    mutating func begin(_ tokens: some Sequence<String>) -> Bool {
        guard mayClaim else { return false }
        pending.formUnion(tokens)
        return true
    }

    /// Redis has answered: of the tokens that were asked for only these have a job.
    mutating func end(_ tokens: some Sequence<String>, claimed: some Sequence<String> = []) {
        pending.subtract(Set(tokens).subtracting(claimed))
    }

    /// Nobody knows whether Redis has made these claims. The next registration, which does not name them, puts them back.
    mutating func lose(_ tokens: some Sequence<String>) {
        pending.subtract(tokens)
        doubt()
    }

    // MARK: Runs

    mutating func enter(_ token: String, _ entry: Entry) {
        pending.remove(token)
        runs[token] = entry
    }

    /// The run has ended; the claim is ours until it is settled or forgotten.
    mutating func leave(_ token: String) {
        runs[token] = nil
        pending.insert(token)
    }

    /// The claim is settled, or another's.
    mutating func forget(_ token: String) { pending.remove(token) }

    // MARK: What Redis knows

    /// Notes what Redis says of the queue. True if the worker is to be quiet from now on, or no longer.
    @discardableResult
    mutating func note(_ gate: QueueGate) -> Bool {
        defer { self.gate = gate }
        return (self.gate == .quiet) != (gate == .quiet)
    }

    mutating func doubt() { isInDoubt = true }

    /// Returns the claims that the registration has to name.
    mutating func beginRegistration() -> [String] {
        isInDoubt = false
        registrations += 1
        // From here on what an abandoned connection may still bring to Redis gets nothing.
        session += 1
        return Array(pending) + Array(runs.keys)
    }

    mutating func endRegistration(succeeded: Bool) {
        registrations -= 1
        if succeeded { isRegistered = true }
    }
}
