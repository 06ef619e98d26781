import Foundation
import Glibc
import HaulTestSupport
import Testing

/// Workers as real processes with the shortest lease, and a Redis and an origin for one test.
struct ProcessFleet {
    static let bytes = FileBytes(seed: 77, count: 1_600_000)

    let server: RedisServer
    let origin: OriginServer
    let root = TemporaryDirectory()
    private let begun = ContinuousClock.now
    /// The origin holds its files at byte `held` until this latch is opened. So no download ends before the test requires
    /// it to.
    let gate = Latch()

    init(_ settings: [String] = [], held: Int64? = 800_000) async throws {
        server = try await RedisServer(settings)
        origin = try OriginServer { [gate] request in
            var reply = OriginReply.file(Self.bytes, to: request)
            let start = request.range(of: Self.bytes.count)?.lowerBound ?? 0
            if let held { reply.hold = (max(0, held - start), gate) }
            return reply
        }
    }

    func worker(_ name: String, lease: Int = 2, url: String? = nil, slots: Int? = nil) throws -> ChildProcess {
        try ChildProcess(
            "haul", arguments(name, lease: lease, url: url) + (slots.map { ["--slots", String($0)] } ?? []))
    }

    func arguments(_ name: String, lease: Int = 2, url: String? = nil) -> [String] {
        [
            "worker", "--root", root.path, "--upload-from", root.path, "--name", name, "--allow-address",
            "127.0.0.0/8", "--lease", String(lease), "--redis", url ?? server.url,
        ]
    }

    func push(_ id: String) async throws {
        try await server.cli(
            "LPUSH", "haul:{default}:jobs", #"{"url":"\#(origin.url("/" + id))","id":"\#(id)","connections":1}"#)
    }

    /// - Parameter more: Further members, beginning with a comma.
    func push(_ url: String, as id: String, more: String = "") async throws {
        try await server.cli("LPUSH", "haul:{default}:jobs", #"{"url":"\#(url)","id":"\#(id)"\#(more)}"#)
    }

    func field(_ name: String, of id: String) async throws -> String {
        try await server.cli("HGET", "haul:{default}:job:\(id)", name)
    }

    func wait(_ id: String, for state: String) async throws {
        try await eventually("\(id) to be \(state)", within: .seconds(40), every: .milliseconds(50)) {
            try await field("state", of: id) == state
        }
    }

    /// Waits until the job waits for the disk, as its hash says.
    func waitUntilParked(_ id: String) async throws {
        try await eventually("\(id) to wait for the disk", within: .seconds(40), every: .milliseconds(50)) {
            try await server.cli("HMGET", "haul:{default}:job:\(id)", "state", "waiting") == "scheduled\ndisk"
        }
    }

    /// Waits until Redis has a checkpoint of the job.
    func waitForOffsets(_ id: String) async throws {
        try await eventually("\(id) to have a checkpoint", every: .milliseconds(50)) {
            try await server.cli("HLEN", "haul:{default}:offsets:\(id)") != "0"
        }
    }

    func wait(for words: String, from worker: ChildProcess) async throws {
        try await eventually("the worker to log: \(words)", within: .seconds(30), every: .milliseconds(20)) {
            worker.standardError.contains(words)
        }
    }

    /// Waits until the queue has had so many ticks.
    func waitForTicks(_ count: Int) async throws {
        var ticks: Set<String> = []
        try await eventually("\(count) ticks", every: .milliseconds(50)) {
            ticks.insert(try await server.cli("GET", "haul:{default}:tick"))
            return ticks.count > count
        }
    }

    /// Expects a number of attempts as of retries with pauses. A busy loop makes thousands a second.
    func expectRare(_ count: Int, _ location: SourceLocation = #_sourceLocation) {
        let most = 20 * (1 + Int((ContinuousClock.now - begun).components.seconds))
        #expect(count < most, sourceLocation: location)
    }

    func end(_ workers: ChildProcess...) async throws {
        for worker in workers { worker.kill(SIGTERM) }
        for worker in workers { _ = try await worker.wait(within: .seconds(30)) }
    }
}
