import HaulBus
import HaulRedis

/// When a push counts as made.
public struct Durability: Sendable, Equatable {
    let replicas: Int
    let wait: Duration

    /// When Redis has answered. What Redis keeps over its own crash is its setting `appendfsync`.
    public static let acknowledged = Durability(replicas: 0, wait: .zero)

    /// When so many replicas have said that they have it (`WAIT`): it outlives a failover.
    ///
    /// If they do not say so in time, ``HaulError/Code-swift.struct/notReplicated`` is thrown, and the jobs are pushed all the same. To push
    /// them once more with the same ``Job/at`` is safe.
    public static func replicas(_ count: Int, within wait: Duration = .seconds(1)) -> Durability {
        Durability(replicas: max(1, count), wait: wait)
    }
}

/// Where a push joins the line.
public enum PlaceInLine: Sendable {
    /// Behind all others: LPUSH.
    case end
    /// Before all others: RPUSH. Of several jobs the first one given is the first to run.
    case front
}

extension HaulQueue {
    /// Puts a job in line.
    ///
    /// The job is checked first, by the rules of the claim. It is stamped with Redis' time unless it has an ``Job/at``.
    ///
    /// - Throws: ``HaulError/Code-swift.struct/invalidJob`` before anything is sent. After any other error the push may be repeated with the
    ///   same id: a job is done once, however often it is pushed while it is not done.
    @discardableResult
    public func push(
        _ job: Job, to place: PlaceInLine = .end, _ durability: Durability = .acknowledged
    ) async throws(HaulError) -> JobHandle {
        try await push([job], to: place, durability)[0]
    }

    /// Puts jobs in line, in their order, however many there are: one round trip asks for Redis' time, and one
    /// pushes them all. If one of them is invalid none is pushed.
    ///
    /// - Returns: The jobs in the order given.
    /// - Throws: As for one job.
    @discardableResult
    public func push(
        _ jobs: [Job], to place: PlaceInLine = .end, _ durability: Durability = .acknowledged
    ) async throws(HaulError) -> [JobHandle] {
        guard !jobs.isEmpty else { return [] }
        var jobs = jobs
        for index in jobs.indices { jobs[index].id = try jobs[index].resolvedID }
        if jobs.contains(where: { $0.at == nil }) {
            let moment = try await reaching { () throws(RedisError) in try await queue.moment() }
            for index in jobs.indices where jobs[index].at == nil { jobs[index].at = moment }
        }
        var elements: [Element] = []
        for job in jobs { elements.append(try Element(checking: job)) }
        let replicas = durability.replicas
        let acknowledged = try await reaching { [elements] () throws(RedisError) in
            try await queue.push(
                elements, toFront: place == .front, replicas: replicas, within: durability.wait, on: waiter)
        }
        guard acknowledged >= replicas else {
            throw HaulError(
                .notReplicated,
                "\(acknowledged) of \(replicas) replicas have the push after \(durability.wait); it is pushed all the same"
            )
        }
        return elements.map { JobHandle(id: $0.id, pushedAt: $0.moment, of: self) }
    }
}

extension Job {
    /// The id that the job will have: ``id``, or what follows from the URL and the path, by the rule of docs/bus.md.
    ///
    /// - Throws: ``HaulError/Code-swift.struct/invalidJob``.
    public var resolvedID: String { get throws(HaulError) { try Element(checking: self).id } }

    /// Sets ``meta`` to a value, written as JSON.
    ///
    /// - Throws: ``HaulError/Code-swift.struct/invalidJob`` if it cannot be written.
    public mutating func setMeta(_ value: some Encodable) throws(HaulError) { meta = try JSON.text(of: value) }
}

extension Element {
    /// Written, read again and checked: what the claim would refuse is refused here, with the same words.
    fileprivate init(checking job: Job) throws(HaulError) {
        let text = job.element
        let json: JSON
        do { json = try JSON(text) } catch {
            // Only raw JSON can be none.
            throw HaulError(Job.Invalid(field: "meta", reason: "must be JSON: \(error)"))
        }
        do { try self.init(json) } catch { throw HaulError(error) }
    }
}
