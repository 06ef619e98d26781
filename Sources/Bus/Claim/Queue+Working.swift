import HaulContract
package import HaulRedis

/// A worker as the other workers and Redis know it.
package struct WorkerIdentity: Sendable {
    /// Unique in the fleet, without braces.
    package let name: String
    /// Identifies this process: 128 random bits in hexadecimal.
    package let instance: String
    /// The store that keeps the worker's files.
    package let store: String
    /// The machine and the namespaces in which processes can see each other; empty if that is unknown.
    package var hostIdentity = ""
    /// How another process with the same host identity can recognize this one: Lua/tick/colocated.lua.
    package var process = ""
    /// Grows with each registration of this process. A claim under an earlier session gets no job.
    package var session = 0

    package init(name: String, store: String, instance: String = Token.make()) {
        (self.name, self.store, self.instance) = (name, store, instance)
    }

    /// The instance and the session, as Workers.is_current() of Lua/tick/workers.lua compares them.
    var claimant: String { "\(instance) \(session)" }
}

/// Whether a queue lets jobs start.
package enum QueueGate: String, Sendable {
    case open, paused
    /// `max_running` jobs are running, or the queue's limit of starts leaves none.
    case full
    /// The worker that calls claims no more jobs.
    case quiet
}

extension Queue {
    /// Waits for an element and claims it, and more elements if there are more tokens, in one round trip.
    ///
    /// - Parameters:
    ///   - tokens: A new token for each job that is wanted.
    ///   - block: How long to wait at most.
    ///   - isFull: The queue has no permit left. Then the call waits for a permit, not for an element.
    ///   - waiter: A client that is used for nothing else, because the call blocks its connection.
    /// - Returns: The claimed jobs. If there are fewer than tokens, the last entry says why.
    package func waitAndClaim(
        _ worker: WorkerIdentity, tokens: [String], block: Duration, isFull: Bool = false, on waiter: Redis
    ) async throws(RedisError) -> [ClaimReply] {
        let seconds = String(block.secondsValue)
        let wait =
            isFull
            ? Command("BLPOP", keys.permits, seconds)
            : Command("BLMOVE", keys.jobs, keys.held(worker.name), "RIGHT", "LEFT", seconds)
        let replies = try await waiter.pipeline(
            [.command(wait), claimCall(worker, tokens)], timeout: .seconds(1), blocking: block)
        // An operator's CLIENT UNBLOCK has ended the wait. That is not a failure; the reply to the claim counts.
        if case .error(let error) = replies[0], error.code != .unblocked { throw error }
        return try Self.claims(try replies[1].get())
    }

    /// Claims jobs without waiting, one for each token. If there are fewer, the last entry says why.
    package func claim(_ worker: WorkerIdentity, tokens: [String]) async throws(RedisError) -> [ClaimReply] {
        try Self.claims(try await redis.pipeline([claimCall(worker, tokens)])[0].get())
    }

    private static func claims(_ reply: RedisValue) throws(RedisError) -> [ClaimReply] {
        var claims: [ClaimReply] = []
        for claim in reply.array ?? [] { claims.append(try ClaimReply(claim)) }
        return claims
    }

    /// Ends runs, and claims a next job of this queue for each token in `next`. The call is idempotent. While Redis is out
    /// of memory, it claims nothing, and gives no reason for that.
    ///
    /// - Returns: For each run true, false if the run was fenced, or the error that the run caused in Redis; and the
    ///   claims, as `claim` returns them. If there are fewer results than runs, the last runs are to be settled by
    ///   another call, because they are in many batches.
    package func settle(
        _ ends: [RunEnd], worker: WorkerIdentity, next: [String]
    ) async throws(RedisError) -> (isOurs: [Result<Bool, RedisError>], next: [ClaimReply]) {
        var arguments: [any RedisArgument] =
            [Token.make(), worker.name, worker.claimant, policy.lease.milliseconds] + policy.retention + [ends.count]
        for end in ends { arguments += end.arguments }
        let reply: RedisValue
        do throws(RedisError) {
            reply = try await redis.run(
                next.isEmpty ? functions.settle : functions.settleAndClaim, keys: keys.functionKeys(for: worker.name),
                arguments: arguments + next)
        } catch {
            guard error.code == .outOfMemory, !next.isEmpty else { throw error }
            return try await settle(ends, worker: worker, next: [])
        }
        let members = reply.members
        let results = members["ends"]?.array ?? []
        guard results.count <= ends.count, !results.isEmpty || ends.isEmpty else {
            throw RedisError(.reply, "the settle function returned \(reply)")
        }
        return (
            results.map { result in
                if case .error(let error) = result { .failure(error) } else { .success(result.string == "done") }
            }, try Self.claims(members["claims"] ?? .array([]))
        )
    }

    /// Registers the worker. Puts back the jobs that it holds in Redis but does not know, and elements that it has not
    /// claimed.
    ///
    /// - Parameters:
    ///   - fields: Pairs for the worker's hash.
    ///   - known: The tokens of all runs that this process knows.
    /// - Returns: False while another live process has the name, or if a registration under a later session came first.
    package func register(
        _ worker: WorkerIdentity, fields: [(String, String)], known: [String]
    ) async throws(RedisError) -> Bool {
        var arguments: [any RedisArgument] =
            [Token.make(), worker.name, worker.instance, worker.session, policy.crashLimit] + policy.retention
            + [fields.count]
        for (name, value) in fields { arguments += [name, value] }
        arguments += known
        while true {
            let reply = try await redis.run(
                functions.register, keys: keys.functionKeys(for: worker.name), arguments: arguments)
            if reply.string != "more" { return reply.string == "ok" }
        }
    }

    /// Forgets a worker that ends, and returns the elements that it has not claimed to the queue. `received` is how
    /// many bytes it has received since it began.
    package func leave(_ worker: WorkerIdentity, received: Int64 = 0) async throws(RedisError) {
        try await redis.run(
            functions.leave, keys: keys.functionKeys(for: worker.name),
            arguments: [Token.make(), worker.name, worker.instance, worker.hostIdentity, received])
    }

    /// Reports that files of a tick's reply are unlinked. If Redis does not get the report, a later tick returns the
    /// files again.
    package func reportUnlinked(_ files: [DroppedFile]) async {
        let calls = Dictionary(grouping: files, by: \.store).map { store, files in
            Call.command(Command(arguments: ["HDEL", keys.deleting(store)] + files.map(\.entry)))
        }
        guard !calls.isEmpty else { return }
        _ = try? await redis.pipeline(calls)
    }

    private func claimCall(_ worker: WorkerIdentity, _ tokens: [String]) -> Call {
        let arguments: [any RedisArgument] =
            [Token.make(), worker.name, worker.claimant, policy.lease.milliseconds] + policy.retention + tokens
        return .function(functions.claim, keys: keys.functionKeys(for: worker.name), arguments: arguments)
    }
}
