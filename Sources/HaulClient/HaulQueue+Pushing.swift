import HaulBus
import HaulRedis

/// What a push waits for before it returns.
public struct Durability: Sendable, Equatable {
    let replicas: Int
    let wait: Duration

    /// Waits for Redis' reply. Redis' setting `appendfsync` decides what survives a crash of Redis.
    public static let acknowledged = Durability(replicas: 0, wait: .zero)

    /// Waits until this many replicas have acknowledged the push (`WAIT`), so that it survives a failover.
    ///
    /// If they do not acknowledge it in time, the push throws ``HaulError/Code-swift.struct/notReplicated``. The jobs
    /// are pushed nevertheless. It is safe to push them again with the same ``Job/at``.
    public static func replicas(_ count: Int, within wait: Duration = .seconds(1)) -> Durability {
        Durability(replicas: max(1, count), wait: wait)
    }
}

/// The place of a push in the list of waiting jobs.
public enum QueuePosition: Sendable {
    /// Behind all other jobs (LPUSH).
    case end
    /// Before all other jobs (RPUSH). Several jobs of one push keep their order.
    case front
}

extension HaulQueue {
    /// Pushes a job.
    ///
    /// The job is checked first, by the same rules as in the claim. A job without an ``Job/at`` gets Redis' time.
    ///
    /// - Throws: ``HaulError/Code-swift.struct/invalidJob`` before anything is pushed. After any other error the push
    ///   may be repeated with the same id: a job that has not ended runs once, however often it is pushed.
    @discardableResult
    public func push(
        _ job: Job, to position: QueuePosition = .end, _ durability: Durability = .acknowledged
    ) async throws(HaulError) -> JobHandle {
        try await push([job], to: position, durability)[0]
    }

    /// Pushes any number of jobs, in their order: one round trip asks for Redis' time, and one pushes all of them. If
    /// one job is not valid, none is pushed.
    ///
    /// - Returns: The handles of the jobs, in the same order.
    /// - Throws: The same errors as the push of one job.
    @discardableResult
    public func push(
        _ jobs: [Job], to position: QueuePosition = .end, _ durability: Durability = .acknowledged
    ) async throws(HaulError) -> [JobHandle] {
        guard !jobs.isEmpty else { return [] }
        var jobs = jobs
        for index in jobs.indices { jobs[index].id = try jobs[index].resolvedID }
        if jobs.contains(where: { $0.at == nil }) {
            let places = jobs.map { queue.placement(ofID: $0.id ?? "", inBatch: $0.batch?.name) }
            let pushes = Dictionary(grouping: zip(places, jobs)) { $0.0 }.mapValues { $0.compactMap(\.1.id) }
            let times = try await mappingErrors { () throws(RedisError) in try await queue.timestamps(of: pushes) }
            for (index, place) in places.enumerated() where jobs[index].at == nil { jobs[index].at = times[place] }
        }
        var elements: [Element] = []
        for job in jobs { elements.append(try Element(checking: job)) }
        let replicas = durability.replicas
        let acknowledged = try await mappingErrors { [elements] () throws(RedisError) in
            try await queue.push(
                elements, toFront: position == .front, replicas: replicas, within: durability.wait, on: waiters)
        }
        guard acknowledged >= replicas else {
            throw HaulError(
                .notReplicated,
                "\(acknowledged) of \(replicas) replicas have the push after \(durability.wait); it is pushed all the same"
            )
        }
        return elements.map { JobHandle(id: $0.id, pushedAt: $0.timestamp, of: self) }
    }
}

extension Job {
    /// The id that the job will have: ``id``, or an id derived from the URL and the path by the rule of
    /// docs/reference/bus.md.
    ///
    /// - Throws: ``HaulError/Code-swift.struct/invalidJob`` if the job is not valid.
    public var resolvedID: String { get throws(HaulError) { try Element(checking: self).id } }

    /// Sets ``meta`` to the JSON text of a value.
    ///
    /// - Throws: ``HaulError/Code-swift.struct/invalidJob`` if the value cannot be encoded.
    public mutating func setMeta(_ value: some Encodable) throws(HaulError) { meta = try JSON.text(of: value) }
}

extension Element {
    /// Writes the job, reads it again and checks it: what the claim would reject is refused here with the same message.
    ///
    /// - Throws: `.invalidJob`.
    fileprivate init(checking job: Job) throws(HaulError) {
        let text = job.element
        let json: JSON
        do { json = try JSON(text) } catch {
            // Only a field of raw JSON can break the syntax.
            throw HaulError(Job.Invalid(field: "meta", reason: "must be JSON: \(error)"))
        }
        do { try self.init(json) } catch { throw HaulError(error) }
    }
}
