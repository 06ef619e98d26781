import HaulBus
import HaulContract
import HaulHTTPServer
import Logging
import Synchronization

/// What `haul web` logs: who signs in, who changes what, and whether Redis answers. Callers choose names, ids and
/// filters, so each of these is cut, and the log's format escapes control characters.
final class AuditLog: Sendable {
    private struct Budget {
        var end = ContinuousClock.now
        var lines = 0
        var leftOut = 0
    }

    private let log: Logger
    private let maxRefusals: Int
    private let window: Duration
    private let refusals = Mutex(Budget())
    private let isRedisFailing = Mutex(false)
    /// Tokens and the addresses that have used them, so that each is logged once and not with each request.
    private let tokens = Mutex<Set<String>>([])

    /// How many refusals of unknown clients are logged in one `window`. Further ones are only counted.
    init(_ log: Logger, maxRefusals: Int = 20, window: Duration = .seconds(60)) {
        (self.log, self.maxRefusals, self.window) = (log, maxRefusals, window)
    }

    // MARK: Signing in

    func signedIn(_ caller: Caller) { log.info("signed in", metadata: Self.metadata(caller)) }

    func usedToken(_ caller: Caller) {
        let isNew = tokens.withLock {
            if $0.count >= 1000 { $0.removeAll() }
            return $0.insert("\(caller.description) \(caller.client)").inserted
        }
        if isNew { log.info("signed in with a token", metadata: Self.metadata(caller)) }
    }

    /// - Parameter name: As the client gives it; nil for a token.
    func signInFailed(_ name: String?, from client: ClientAddress, _ reason: String) {
        var metadata: Logger.Metadata = ["address": "\(client)", "reason": .string(reason)]
        metadata["user"] = name.map { .string(Self.truncated($0, to: 64)) }
        refused("sign-in failed", metadata)
    }

    /// Logs a refusal, or counts it if there were many in the last minute, because unknown clients must not fill the log.
    private func refused(_ message: Logger.Message, _ metadata: Logger.Metadata) {
        let (isLogged, isFirstLeftOut) = refusals.withLock { budget in
            if budget.end <= .now, budget.leftOut == 0 { budget = Budget(end: .now + window) }
            guard budget.lines >= maxRefusals else {
                budget.lines += 1
                return (true, false)
            }
            budget.leftOut += 1
            return (false, budget.leftOut == 1)
        }
        if isLogged { log.warning(message, metadata: metadata) }
        guard isFirstLeftOut else { return }
        Task {
            try? await Task.sleep(for: window)
            let count = refusals.withLock { budget in
                defer { budget = Budget(end: .now + window) }
                return budget.leftOut
            }
            log.warning("more refusals were not logged", metadata: ["refusals": "\(count)"])
        }
    }

    // MARK: Changes

    /// Logs a change, and adds it to the queue's list of changes. A push is only logged: pushes are many, and would
    /// crowd out what people look for in that list.
    func changed(_ change: ChangeRecord, of queue: Queue, by caller: Caller) async {
        log.notice("changed", metadata: Self.metadata(change, queue, caller))
        if !["push", "addUri"].contains(change.action) { await queue.record(change) }
    }

    func failed(_ change: ChangeRecord, of queue: Queue, by caller: Caller, _ error: APIError) {
        var metadata = Self.metadata(change, queue, caller)
        metadata["error"] = .string(error.code.rawValue)
        metadata["reason"] = .string(Self.truncated(error.message, to: 300))
        log.warning("change failed, possibly in part", metadata: metadata)
    }

    func refusedChange(of path: [String], by caller: Caller) {
        var metadata = Self.metadata(caller)
        metadata["path"] = .string(Self.truncated(path.joined(separator: "/"), to: 200))
        refused("change refused: the user is a viewer", metadata)
    }

    func readSecrets(of id: String, in queue: QueueName, by caller: Caller) {
        var metadata = Self.metadata(caller)
        metadata["queue"] = .string(queue.text)
        metadata["id"] = .string(id)
        log.notice("read the pushed element", metadata: metadata)
    }

    func savedFile(_ file: String, of id: String, in queue: QueueName, by caller: Caller) {
        var metadata = Self.metadata(caller)
        metadata["queue"] = .string(queue.text)
        metadata["id"] = .string(id)
        metadata["file"] = .string(Self.truncated(file, to: 300))
        log.notice("sends the file of a job", metadata: metadata)
    }

    // MARK: Redis

    func redisFailed(_ reason: String) {
        guard
            isRedisFailing.withLock({ isFailing in
                !isFailing
                    && {
                        isFailing = true; return true
                    }()
            })
        else { return }
        log.warning("Redis failed", metadata: ["reason": .string(Self.truncated(reason, to: 300))])
    }

    func redisAnswered() {
        guard
            isRedisFailing.withLock({ isFailing in
                isFailing
                    && {
                        isFailing = false; return true
                    }()
            })
        else { return }
        log.notice("Redis answers again")
    }

    // MARK: Texts

    private static func metadata(_ caller: Caller) -> Logger.Metadata {
        var metadata: Logger.Metadata = ["role": .string(caller.role.rawValue), "address": "\(caller.client)"]
        metadata["user"] = caller.name.map { .string($0) }
        return metadata
    }

    private static func metadata(_ change: ChangeRecord, _ queue: Queue, _ caller: Caller) -> Logger.Metadata {
        var metadata = Self.metadata(caller)
        metadata["action"] = .string(change.action)
        metadata["queue"] = .string(queue.name.text)
        metadata["jobs"] = change.jobs.map { "\($0)" }
        if !change.ids.isEmpty { metadata["ids"] = .string(truncated(change.ids.joined(separator: " "), to: 500)) }
        metadata["batch"] = change.batch.map { .string($0) }
        metadata["schedule"] = change.schedule.map { .string($0) }
        metadata["where"] = change.filter.map { .string($0) }
        metadata["settings"] = change.settings.map { .string($0) }
        return metadata
    }

    static func truncated(_ text: String, to length: Int) -> String {
        text.unicodeScalars.count <= length
            ? text : String(String.UnicodeScalarView(text.unicodeScalars.prefix(length))) + "…"
    }
}
