import HaulBus
import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

/// A queue whose jobs are in batches.
struct BatchFixture {
    let f: QueueFixture
    var queue: Queue { f.queue }

    init(_ change: (inout QueuePolicy) -> Void = { _ in }) async throws { f = try await QueueFixture(change) }

    /// Pushes a job; `batch` is JSON.
    func push(_ id: String, in batch: String = #"{"name":"b","size":2,"reply_to":"r"}"#, _ more: String = "")
        async throws
    {
        try await f.push(#"{"url":"http://h/\#(id)","id":"\#(id)","batch":\#(batch)\#(more)}"#)
    }

    /// Pushes a job and claims it.
    func begin(
        _ id: String, in batch: String = #"{"name":"b","size":2,"reply_to":"r"}"#, _ more: String = ""
    ) async throws -> Claim {
        try await push(id, in: batch, more)
        let claim = try #require(try await f.claim())
        #expect(claim.run.id == id)
        return claim
    }

    func fail(_ claim: Claim) async throws {
        try await f.settle(claim, .failed(Failure(.io, "m"), retryable: true, received: 0))
    }

    /// Makes an operation for a batch, and ticks until all members have it.
    func ask(_ operation: BatchOperation, of name: String = "b", _ claims: [Claim] = []) async throws {
        try await queue.request(operation, ofBatch: name)
        try await tickUntilApplied(claims)
    }

    func tickUntilApplied(_ claims: [Claim] = []) async throws {
        try await eventually("the operations to be applied") {
            try await f.tick(claims)
            return try await f.redis.send(Command("HLEN", queue.keys.want)).int == 0
        }
    }

    /// The counts as `pending completed failed cancelled rejected`. They are compared with the members first.
    func counts(_ name: String = "b") async throws -> [Int] {
        let record = try await queue.batch(name)
        let members = try await f.redis.send(Command("HGETALL", queue.keys.members(name))).dictionary
        let counts = BatchState.allCases.map { record?.counts[$0] ?? 0 }
        #expect(
            counts == BatchState.allCases.map { state in members.values.count { $0 == state.rawValue } }, "\(members)")
        return counts
    }

    /// The replies on a list, oldest first.
    func reported(_ name: String = "r") async throws -> [JSON] {
        let list = try await f.redis.send(Command("LRANGE", queue.keys.reply(name), 0, -1)).array ?? []
        return try list.reversed().map { try JSON($0.bytes ?? []) }
    }

    func rounds(_ name: String = "r") async throws -> [Int64] {
        try await reported(name).compactMap { $0["round"]?.integer }
    }
}
