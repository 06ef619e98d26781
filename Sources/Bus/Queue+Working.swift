import HaulContract
package import HaulRedis

/// A worker as others see it.
package struct WorkerIdentity: Sendable {
    /// Unique in the fleet; no braces.
    package let name: String
    /// This process: 128 random bits.
    package let instance: String
    /// Where its files are.
    package let store: String
    /// The machine, as far as processes on it can tell whether another one is there; empty if they cannot.
    package var place = ""
    /// How those at the same place can tell this process.
    package var process = ""
    /// Grows with each registration of this process: claims of an earlier one get nothing.
    package var session = 0

    package init(name: String, store: String, instance: String = Token.make()) {
        (self.name, self.store, self.instance) = (name, store, instance)
    }

    /// What claims are made under, as Lua/prelude.lua compares it.
    var claimant: String { "\(instance) \(session)" }
}

/// Whether a queue lets jobs begin.
package enum QueueGate: String, Sendable {
    case open, paused
    /// As many jobs run as `max_running` allows.
    case full
    /// The worker that asks is to take no more.
    case quiet
}

extension Queue {
    /// Waits up to `block` for an element and claims it, and more if there are more tokens and elements, in one round trip on
    /// `waiter`, a client of its own. In a queue that is full it waits for a place instead.
    package func waitAndClaim(
        _ worker: WorkerIdentity, tokens: [String], block: Duration, isFull: Bool = false, on waiter: Redis
    ) async throws(RedisError) -> [ClaimReply] {
        let seconds = String(block.secondsValue)
        let wait =
            isFull
            ? Command("BLPOP", keys.places, seconds)
            : Command("BLMOVE", keys.jobs, keys.held(worker.name), "RIGHT", "LEFT", seconds)
        let replies = try await waiter.pipeline(
            [.command(wait), claimCall(worker, tokens)], timeout: .seconds(1), blocking: block)
        // A wait that an operator's CLIENT UNBLOCK ended is no failure; the claim behind it counts.
        if case .error(let error) = replies[0], error.code != .unblocked { throw error }
        return try Self.claims(try replies[1].get())
    }

    /// Claims what waits now, a job for each token. If there are fewer, what follows them says why.
    package func claim(_ worker: WorkerIdentity, tokens: [String]) async throws(RedisError) -> [ClaimReply] {
        try Self.claims(try await redis.pipeline([claimCall(worker, tokens)])[0].get())
    }

    private static func claims(_ reply: RedisValue) throws(RedisError) -> [ClaimReply] {
        var claims: [ClaimReply] = []
        for claim in reply.array ?? [] { claims.append(try ClaimReply(claim)) }
        return claims
    }

    /// Ends runs, and claims as many next jobs of this queue as there are tokens in `next`. Safe to be sent again. Each run has
    /// an answer of its own, false if it was no longer ours; the claims end with what else there was to say, if they are fewer.
    package func settle(
        _ ends: [RunEnd], worker: WorkerIdentity, next: [String]
    ) async throws(RedisError) -> (isOurs: [Result<Bool, RedisError>], next: [ClaimReply]) {
        var arguments: [any RedisArgument] =
            [Token.make(), worker.name, worker.claimant, policy.lease.milliseconds] + policy.retention + [ends.count]
        for end in ends { arguments += end.arguments }
        arguments += next
        let reply = try await redis.run(functions.settle, keys: keys.given(to: worker.name), arguments: arguments)
        let members = reply.members
        let answers = members["ends"]?.array ?? []
        guard answers.count == ends.count else { throw RedisError(.reply, "the settle function answered \(reply)") }
        return (
            answers.map { answer in
                if case .error(let error) = answer { .failure(error) } else { .success(answer.string == "done") }
            }, try Self.claims(members["claims"] ?? .array([]))
        )
    }

    /// Makes the worker known; what it held without knowing goes back to the front. False while another live process
    /// has its name, or if a registration of a later session has been here.
    package func register(
        _ worker: WorkerIdentity, fields: [(String, String)], known: [String]
    ) async throws(RedisError) -> Bool {
        var arguments: [any RedisArgument] =
            [Token.make(), worker.name, worker.instance, worker.session, policy.crashLimit] + policy.retention
            + [fields.count]
        for (name, value) in fields { arguments += [name, value] }
        arguments += known
        let reply = try await redis.run(functions.register, keys: keys.given(to: worker.name), arguments: arguments)
        return reply.string == "ok"
    }

    /// Forgets a worker that ends, and has `received` so many bytes in all; what it took and never claimed goes back to the front.
    package func leave(_ worker: WorkerIdentity, received: Int64 = 0) async throws(RedisError) {
        try await redis.run(
            functions.leave, keys: keys.given(to: worker.name),
            arguments: [Token.make(), worker.name, worker.instance, worker.place, received])
    }

    /// Tells that files of which a tick had told are unlinked. What Redis does not hear of is given again.
    package func tellUnlinked(_ files: [DroppedFile]) async {
        let calls = Dictionary(grouping: files, by: \.store).map { store, files in
            Call.command(Command(arguments: ["HDEL", keys.dropping(store)] + files.map(\.entry)))
        }
        guard !calls.isEmpty else { return }
        _ = try? await redis.pipeline(calls)
    }

    private func claimCall(_ worker: WorkerIdentity, _ tokens: [String]) -> Call {
        let arguments: [any RedisArgument] =
            [Token.make(), worker.name, worker.claimant, policy.lease.milliseconds] + policy.retention + tokens
        return .function(functions.claim, keys: keys.given(to: worker.name), arguments: arguments)
    }
}
