import HaulClient
import HaulTestSupport

/// A Redis server, an origin and real workers.
struct ClientBench {
    static let bytes = FileBytes(seed: 91, count: 1_200_000)

    let server: RedisServer
    let root = TemporaryDirectory()
    /// Until this is opened, files beneath /held stop after their first 600,000 bytes.
    let gate = Latch()
    let origin: OriginServer

    init(_ settings: [String] = []) async throws {
        server = try await RedisServer(settings)
        origin = try OriginServer { [gate] request in
            guard !request.path.hasPrefix("/missing") else {
                return OriginReply(404)
            }
            if request.path.hasPrefix("/ok") { return OriginReply(body: Array("ok".utf8)) }
            var reply = OriginReply.file(Self.bytes, to: request)
            let start = request.range(of: Self.bytes.count)?.lowerBound ?? 0
            if request.path.hasPrefix("/held") { reply.hold = (max(0, 600_000 - start), gate) }
            return reply
        }
    }

    func queue(_ name: String = "default") throws -> HaulQueue { try HaulQueue(redis: server.url, queue: name) }

    func worker(_ name: String = "w") throws -> ChildProcess {
        try ChildProcess(
            "haul",
            [
                "worker", "--root", root.path, "--upload-from", root.path, "--name", name, "--allow-address",
                "127.0.0.0/8", "--lease", "2",
                "--redis", server.url,
            ])
    }

    func job(_ path: String, id: String? = nil) -> Job {
        var job = Job(origin.url(path), id: id)
        job.connections = 1
        return job
    }

    /// The number of subscribers to a job's channel; -1 if Redis does not say it.
    func listeners(_ id: String) async throws -> Int {
        let lines = try await server.cli("PUBSUB", "NUMSUB", "haul:{default}:events:\(id)").split(separator: "\n")
        return lines.last.flatMap { Int($0) } ?? -1
    }

    func waitForListener(_ id: String) async throws {
        try await eventually("a subscriber to the events of \(id)") { try await listeners(id) > 0 }
    }

    func wait(_ id: String, for state: String) async throws {
        try await eventually("\(id) to be \(state)", within: .seconds(30), every: .milliseconds(30)) {
            try await server.cli("HGET", "haul:{default}:job:\(id)", "state") == state
        }
    }
}

/// All elements of a sequence that ends.
func collect<Elements: AsyncSequence>(_ sequence: Elements) async throws -> [Elements.Element] {
    var elements: [Elements.Element] = []
    for try await element in sequence { elements.append(element) }
    return elements
}

extension JobUpdate {
    /// The name of the event, or "is" and the state that the hash has.
    var name: String {
        switch self {
        case .event(let event): event.name
        case .status(let status): "is \(status.state)"
        }
    }
}

/// The value of a task. The task is cancelled after a minute.
func value<T: Sendable>(of task: Task<T, any Error>) async throws -> T {
    let alarm = Task {
        try await Task.sleep(for: .seconds(60))
        task.cancel()
    }
    defer { alarm.cancel() }
    return try await task.value
}
