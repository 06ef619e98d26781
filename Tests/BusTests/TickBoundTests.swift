import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

@testable import HaulBus

/// Calls are short even if much ends or comes back at the same moment.
@Suite(.serialized) struct TickBoundTests {
    /// Makes single calls of one tick with these dead workers, until no job runs any more. Returns what each call cost.
    private func reap(_ dead: [ColocatedWorker], by worker: WorkerIdentity, _ f: QueueFixture, _ meter: CallMeter)
        async throws -> [Double]
    {
        var costs: [Double] = []
        while costs.count < 500, try await f.queue.stats().counts[.running] != 0 {
            var tick = Tick(worker, runs: [], deadWorkers: dead)
            costs.append(try await meter.cost { _ = try await f.queue.step(&tick) })
        }
        return costs
    }

    @Test(
        "the jobs of many workers that end at once are put back in short calls", arguments: RedisServer.Kind.installed)
    func deadWorkers(server: RedisServer.Kind) async throws {
        let f = try await QueueFixture(on: server)
        let meter = try await CallMeter(f)
        let (count, slots) = (40, 12)
        for index in 0..<100 {
            try await f.queue.setLimit(of: "h\(index)", to: #"{"rate":1000000}"#)
        }
        try await f.push((0..<count * slots).map { #"{"id":"j\#($0)","url":"http://h/\#($0)"}"# })
        var dead: [ColocatedWorker] = []
        var last = f.worker
        for number in 0...count {
            var worker = WorkerIdentity(name: "dead\(number)", store: "s", instance: "i\(number)")
            (worker.hostIdentity, worker.process) = ("machine", "i\(number) 1 1")
            _ = try await f.queue.register(worker, fields: [], known: [])
            try await f.queue.tick(worker, runs: [])
            if number == count {
                last = worker
            } else {
                var left = slots
                while left > 0 {
                    let tokens = (0..<left).map { _ in Token.make() }
                    left -= try await f.queue.claim(worker, tokens: tokens).count {
                        if case .job = $0 { true } else { false }
                    }
                }
                dead.append(ColocatedWorker(worker: worker.name, process: worker.process))
            }
        }
        let costs = try await reap(dead, by: last, f, meter)
        meter.expectShort("\(server.rawValue): ticks that end \(count) workers", costs)
        #expect(costs.count >= count * slots / 24)
        #expect(try await f.queue.stats().counts[.queued] == count * slots)
        try await f.expectOrder()
    }

    @Test(
        "an operation for a batch whose members have operations of their own is short calls",
        arguments: RedisServer.Kind.installed)
    func operationsOfMembers(server: RedisServer.Kind) async throws {
        let f = try await QueueFixture(on: server)
        let meter = try await CallMeter(f)
        let count = 100
        try await f.push(
            (0..<count).map { #"{"id":"j\#($0)","url":"http://h/","delay":1000,"batch":"b","reply_to":"r"}"# })
        _ = try await meter.claimAll()
        let members = (0..<count).flatMap { ["j\($0)", "cancelled"] }
        try await f.redis.send(Command(arguments: ["HSET", f.queue.keys.want, "batch/b", "paused"] + members))
        let costs = try await meter.ticks(limit: 500) {
            try await f.redis.send(Command("HLEN", f.queue.keys.want)).int == 0
        }
        meter.expectShort("\(server.rawValue): an operation for a batch of cancelled members", costs)
        #expect(costs.count >= count / 30)
        for index in 0..<count { #expect(try await f.state("j\(index)") == .cancelled) }
        try await f.expectOrder()
    }

    @Test(
        "cancels of elements that wait for a host or a group are short calls",
        arguments: RedisServer.Kind.installed, ["host", "group"])
    func deferred(server: RedisServer.Kind, by limit: String) async throws {
        let f = try await QueueFixture(on: server)
        let meter = try await CallMeter(f)
        let count = 200
        if limit == "host" {
            try await f.queue.set(.hostConnections, to: "1")
        } else {
            try await f.queue.setLimit(of: "group:g", to: #"{"running":1}"#)
        }
        let group = limit == "group" ? #","group":"g""# : ""
        try await f.push((0...count).map { #"{"id":"j\#($0)","url":"http://h/\#($0)","reply_to":"r"\#(group)}"# })
        #expect(try await f.claim()?.run.id == "j0")
        while try await f.redis.send(Command("LLEN", f.queue.keys.jobs)).int ?? 0 > 0 {
            #expect(try await f.claim() == nil)
        }
        for page in (1...count).map({ ["j\($0)", "cancelled"] }).chunks(ofCount: 1000) {
            try await f.redis.send(Command(arguments: ["HSET", f.queue.keys.want] + page.flatMap(\.self)))
        }
        let costs = try await meter.ticks(limit: 1000) {
            try await f.queue.stats().counts[.cancelled] == count
        }
        meter.expectShort("\(server.rawValue): cancels of jobs that wait for a \(limit)", costs)
        #expect(costs.count >= count / 20)
        #expect(try await f.queue.stats().counts[.cancelled] == count)
        try await f.expectOrder()
    }
}
