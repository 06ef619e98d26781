import HaulExecutors
import HaulHTTPServer

/// Decides which password is checked next. A check takes a core for a third of a second, so one runs at a time, and
/// guesses must not keep the right password waiting.
///
/// Failures are counted for each network, for each name, and for each pair of them. After three failures, the checks of
/// a pair are at least 125 ms apart, and up to a second after further ones. All unknown names count as one name here.
///
/// The attempt with the lowest penalty is checked first: unknown names come last, and among the others the name and the
/// network with the fewest failures come first. Of attempts with the same penalty, the three newest take turns. A
/// guesser who repeats attempts at once is always among these three, so a person who signs in meanwhile is checked
/// after a few guesses, however many of them wait.
actor SignInQueue {
    struct Attempt: Sendable {
        let name: String
        /// Whether a user has this name.
        let isKnown: Bool
        let network: ClientNetwork
    }

    private struct Pair: Hashable {
        /// nil for all unknown names.
        let name: String?
        let network: ClientNetwork
    }

    private struct Failures {
        var count = 0
        var last = ContinuousClock.now
    }

    private struct Waiting {
        let attempt: Attempt
        let arrived: ContinuousClock.Instant
        let continuation: CheckedContinuation<Bool, Never>
    }

    private var pairs: [Pair: Failures] = [:]
    private var networks: [ClientNetwork: Failures] = [:]
    private var names: [String: Failures] = [:]
    /// In the order of arrival.
    private var waiting: [Waiting] = []
    private var isChecking = false
    private var checkCount = 0
    private var wakeUp: Task<Void, Never>?
    private let pool = BlockingPool(name: "login", limit: 1)
    private let maxWait: Duration

    private static let maxWaiting = 64
    /// A network with many users makes some mistakes.
    private static let freeFailures = 3
    private static let maxPause: Duration = .seconds(1)
    /// A failure counts for this time.
    private static let failureLifetime: Duration = .seconds(600)
    private static let maxEntries = 4096

    /// - Parameter maxWait: An attempt that has waited for this time is refused.
    init(maxWait: Duration = .seconds(15)) { self.maxWait = maxWait }

    /// Runs `check` when it is the attempt's turn. nil if the attempt is refused, because too many wait.
    func run(_ attempt: Attempt, _ check: @escaping @Sendable () -> Bool) async -> Bool? {
        if waiting.count >= Self.maxWaiting { refuseWorst(for: attempt) }
        guard waiting.count < Self.maxWaiting else { return nil }
        let hasTurn = await withCheckedContinuation { continuation in
            waiting.append(Waiting(attempt: attempt, arrived: .now, continuation: continuation))
            checkNext()
        }
        guard hasTurn else { return nil }
        defer {
            isChecking = false
            checkNext()
        }
        // The client of a guess may be gone already.
        guard !Task.isCancelled else { return nil }
        let isRight = await pool.run(check)
        record(attempt, isRight)
        return isRight
    }

    /// Starts the check of the waiting attempt with the lowest penalty, if no check runs.
    private func checkNext() {
        guard !isChecking else { return }
        let now = ContinuousClock.now
        waiting.removeAll { entry in
            guard entry.arrived + maxWait <= now else { return false }
            entry.continuation.resume(returning: false)
            return true
        }
        var best: (penalty: Int, indices: [Int]) = (.max, [])
        var next: ContinuousClock.Instant?
        for (index, entry) in waiting.enumerated() {
            if let start = start(of: entry.attempt), start > now {
                next = min(next ?? start, start, entry.arrived + maxWait)
                continue
            }
            let penalty = penalty(of: entry.attempt)
            if penalty < best.penalty { best = (penalty, []) }
            if penalty == best.penalty { best.indices.append(index) }
        }
        if !best.indices.isEmpty {
            isChecking = true
            checkCount += 1
            let newest = best.indices.suffix(3)
            let index = newest[newest.endIndex - 1 - checkCount % newest.count]
            waiting.remove(at: index).continuation.resume(returning: true)
        } else if let next {
            wakeUp?.cancel()
            wakeUp = Task {
                try? await Task.sleep(until: next, clock: .continuous)
                if !Task.isCancelled { checkNext() }
            }
        }
    }

    /// Refuses the oldest of the attempts with the highest penalty, unless the penalty of `attempt` is higher.
    private func refuseWorst(for attempt: Attempt) {
        let penalties = waiting.map { penalty(of: $0.attempt) }
        guard let worst = penalties.max(), worst >= penalty(of: attempt), let index = penalties.firstIndex(of: worst)
        else { return }
        waiting.remove(at: index).continuation.resume(returning: false)
    }

    private func pair(of attempt: Attempt) -> Pair {
        Pair(name: attempt.isKnown ? attempt.name : nil, network: attempt.network)
    }

    /// When an attempt may be checked at the earliest; nil if at once.
    private func start(of attempt: Attempt) -> ContinuousClock.Instant? {
        guard let failures = pairs[pair(of: attempt)], failures.count >= Self.freeFailures else { return nil }
        let pause = Duration.milliseconds(125) * (1 << min(failures.count - Self.freeFailures, 3))
        return failures.last + min(pause, Self.maxPause)
    }

    private func penalty(of attempt: Attempt) -> Int {
        (attempt.isKnown ? names[attempt.name]?.count ?? 0 : 1_000_000) + (networks[attempt.network]?.count ?? 0)
    }

    private func record(_ attempt: Attempt, _ isRight: Bool) {
        let pair = pair(of: attempt)
        if isRight {
            pairs[pair] = nil
            names[attempt.name] = nil
            return
        }
        Self.count(pair, in: &pairs)
        Self.count(attempt.network, in: &networks)
        if attempt.isKnown { Self.count(attempt.name, in: &names) }
    }

    private static func count<Key>(_ key: Key, in table: inout [Key: Failures]) {
        let now = ContinuousClock.now
        if table.count >= maxEntries {
            table = table.filter { $0.value.last + failureLifetime > now }
            // If that leaves too many, keep those with the most failures, because only they are delayed.
            if table.count >= maxEntries {
                let kept = table.sorted { $0.value.count > $1.value.count }.prefix(maxEntries / 2)
                table = Dictionary(uniqueKeysWithValues: kept.map { ($0.key, $0.value) })
            }
        }
        var failures = table[key] ?? Failures()
        if failures.last + failureLifetime <= now { failures.count = 0 }
        (failures.count, failures.last) = (failures.count + 1, now)
        table[key] = failures
    }
}
