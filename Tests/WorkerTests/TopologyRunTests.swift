import HaulBus
import HaulContract
import HaulHTTP
import HaulRedis
import HaulTestSupport
import Logging
import Testing

@testable import HaulWorker

/// Workers on a Redis Cluster, and with sentinels.
@Suite struct TopologyRunTests {
    static let bytes = FileBytes(seed: 61, count: 1_500_000)

    /// An origin that holds each response after its first 100,000 bytes.
    private func origin(until gate: Latch) throws -> OriginServer {
        try OriginServer { request in
            var reply = OriginReply.file(Self.bytes, to: request)
            reply.hold = (100_000, gate)
            return reply
        }
    }

    private func worker(_ url: RedisURL, _ root: String, _ queues: [QueueName]) throws -> Worker {
        var configuration = WorkerConfiguration(redis: url, root: root, name: "w")
        configuration.addressPolicy = .unrestricted
        configuration.slots = 12
        configuration.connectionsPerHost = 100
        configuration.queues = queues.map { ServedQueue($0) }
        var log = Logger(label: "test", factory: { StreamLogHandler.standardError(label: $0) })
        log.logLevel = .critical
        return try Worker(configuration, log: log)
    }

    @Test("queues on three shards are served, also one whose slot moves while its jobs run")
    func cluster() async throws {
        let cluster = try await RedisCluster()
        let url = try RedisURL(cluster.url)
        let root = TemporaryDirectory()
        let gate = Latch()
        let origin = try origin(until: gate)
        let names = ["a", "b", "c"].map { QueueName($0)! }
        let queues = names.map { Queue($0, redis: Redis(url, name: "test")) }
        let owners = Set(try await names.asyncMap { try await cluster.owner(of: cluster.slot(of: "{\($0)}")) })
        #expect(owners.count == 3)
        let running = Task { [worker = try worker(url, root.path, names)] in try await worker.run() }
        for (name, queue) in zip(names, queues) {
            for number in 0..<3 {
                let element =
                    #"{"url":"\#(origin.url("/\(name)\(number)"))","id":"\#(number)","path":"\#(name)\#(number)"}"#
                try await queue.redis.send(Command("LPUSH", queue.keys.jobs, element))
            }
        }
        try await eventually("all jobs to run") {
            for queue in queues where (try? await queue.stats())?.counts[.running] != 3 { return false }
            return true
        }
        async let migration: Void = cluster.migrate(cluster.slot(of: "{a}"))
        gate.open()
        try await migration
        try await eventually("all to be completed", within: .seconds(40)) {
            for queue in queues {
                guard (try? await queue.stats())?.counts[.completed] == 3 else { return false }
            }
            return true
        }
        for name in names {
            // A new client begins at a node that may serve another queue.
            try await Queue(name, redis: Redis(url, name: "new")).request(.removed, of: ["0"])
        }
        try await eventually("all requests to be applied") {
            for queue in queues where (try? await queue.job("0")) ?? nil != nil { return false }
            return true
        }
        running.cancel()
        try await running.value
        for name in names { for number in 0..<3 { #expect(root.holds("\(name)\(number)", Self.bytes)) } }
        try await eventually("the worker to be gone") { (try? await queues[0].workers())?.isEmpty == true }
    }

    @Test("a failover loses no job that a replica had") func failover() async throws {
        let topology = try await RedisWithSentinels()
        let url = try RedisURL(topology.url)
        let root = TemporaryDirectory()
        let gate = Latch()
        let origin = try origin(until: gate)
        let queue = Queue(.default, redis: Redis(url, name: "test"))
        let running = Task { [worker = try worker(url, root.path, [.default])] in try await worker.run() }
        for number in 0..<8 {
            let element = #"{"url":"\#(origin.url("/\(number)"))","id":"\#(number)","path":"\#(number)"}"#
            try await queue.redis.send(Command("LPUSH", queue.keys.jobs, element))
        }
        #expect(try await queue.redis.send(Command("WAIT", 1, 5000)).int == 1)
        try await eventually("some jobs to run") { try await queue.stats().counts[.running] ?? 0 > 3 }
        try await topology.primary().signal(9)
        gate.open()
        try await eventually("all to be completed", within: .seconds(60)) {
            (try? await queue.stats())?.counts[.completed] == 8
        }
        running.cancel()
        try await running.value
        for number in 0..<8 { #expect(root.holds("\(number)", Self.bytes)) }
    }
}

extension Sequence {
    fileprivate func asyncMap<T>(_ transform: (Element) async throws -> T) async rethrows -> [T] {
        var result: [T] = []
        for element in self { result.append(try await transform(element)) }
        return result
    }
}
