import HaulBus
import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

/// An operation is for what was pushed before it, however late a tick applies it.
@Suite struct OperationTimeTests {
    /// Makes a tick, and returns a timestamp after the tick that is in the past by now.
    private func timestamp(_ f: QueueFixture) async throws -> Int64 {
        try await f.tick()
        let observe = try #require(try await f.redis.send(Command("GET", f.queue.keys.tick)).string)
        let timestamp = try #require(Int64(observe.prefix { $0 != " " })) + 10
        try await eventually { UnixTime.milliseconds > timestamp + 10 }
        return timestamp
    }

    private func element(_ at: Int64) -> String { #"{"url":"http://h/1","id":"1","at":\#(at)}"# }

    /// Checks that the operation has stopped the job, whose next run needs a push that is newer than it.
    private func expectStopped(
        by operation: ControlOperation, _ f: QueueFixture, until older: Int64, startsAt newer: Int64
    ) async throws {
        #expect(try await f.state("1") == (operation == .paused ? .paused : .cancelled))
        try await f.push(element(older))
        #expect(try await f.claim() == nil)
        try await f.push(element(newer))
        #expect(try await f.claim() != nil)
        try await f.expectOrder()
    }

    @Test(
        "a later operation stops a job that no worker has claimed yet",
        arguments: [ControlOperation.paused, .cancelled])
    func unseen(_ operation: ControlOperation) async throws {
        let f = try await QueueFixture()
        let timestamp = try await timestamp(f)
        try await f.push(element(timestamp))
        try await f.queue.request(operation, of: ["1"], at: timestamp + 1)
        try await f.tick()
        #expect(try await f.claim() == nil)
        try await expectStopped(by: operation, f, until: timestamp, startsAt: timestamp + 2)
    }

    @Test(
        "in every state an operation stops the pushes before it, and not the pushes after it",
        arguments: [JobState.queued, .scheduled, .running, .paused], [ControlOperation.paused, .cancelled])
    func known(_ state: JobState, _ operation: ControlOperation) async throws {
        let f = try await QueueFixture()
        let delay = state == .scheduled ? #","delay":1000"# : ""
        try await f.push(#"{"url":"http://h/1","id":"1"\#(delay)}"#)
        let claim = try await f.claim()
        if state == .queued { try await f.settle(try #require(claim), .released(why: "test")) }
        if state == .paused {
            try await f.queue.request(.paused, of: ["1"])
            try await f.tick()
            try await f.settle(try #require(claim), .paused)
        }
        #expect(try await f.state("1") == state)
        let timestamp = try await timestamp(f)
        try await f.queue.request(operation, of: ["1"], at: timestamp)
        let reply = try await f.tick(claim.map { [$0] } ?? [])
        if state == .running {
            #expect(reply.operations.values.first == operation)
            try await f.settle(try #require(claim), operation == .paused ? .paused : .cancelled)
        }
        try await f.push(element(timestamp))
        #expect(try await f.claim() == nil)
        try await f.push(element(timestamp + 1))
        #expect(try await f.claim() != nil)
        try await f.expectOrder()
    }

    @Test("a cancel of a completed job stops an older push that still waits") func waiting() async throws {
        let f = try await QueueFixture()
        try await f.push(#"{"url":"http://h/1","id":"1"}"#)
        try await f.settle(try #require(try await f.claim()), QueueFixture.done)
        let timestamp = try await timestamp(f)
        try await f.push(element(timestamp))
        try await f.queue.request(.cancelled, of: ["1"], at: timestamp + 1)
        try await f.tick()
        #expect(try await f.claim() == nil)
        #expect(try await f.state("1") == .completed)
        try await f.push(element(timestamp + 2))
        #expect(try await f.claim() != nil)
    }

    @Test("an operation whose time is not in unix milliseconds is rejected, and changes nothing")
    func seconds() async throws {
        let f = try await QueueFixture()
        try await f.push(#"{"url":"http://h/1","id":"1"}"#)
        let claim = try #require(try await f.claim())
        for wrong in [UnixTime.seconds, UnixTime.milliseconds * 1000] {
            try await f.queue.request(.paused, of: ["1"], at: wrong)
            #expect(try await f.tick([claim]).operations.isEmpty)
            let rejected = try #require(try await f.queue.rejected(limit: 1).first)
            #expect(
                try JSON(rejected)["reason"]?.string?.hasPrefix("want: the time must be unix milliseconds") == true)
        }
    }

    @Test("an operation with a wrong time does not stop a newer push")
    func clocks() async throws {
        for wrong in [JobField.timestamps.lowerBound, JobField.timestamps.upperBound] {
            let f = try await QueueFixture()
            let timestamp = try await timestamp(f)
            try await f.queue.request(.paused, of: ["1"], at: wrong)
            try await f.tick()
            try await f.push(
                element(wrong == JobField.timestamps.lowerBound ? timestamp : UnixTime.milliseconds + 1000))
            #expect(try await f.claim() != nil)
        }
    }

    @Test("a cancel is not revoked, because the run may have received it") func final() async throws {
        let f = try await QueueFixture()
        try await f.push(#"{"url":"http://h/1","id":"1"}"#)
        let claim = try #require(try await f.claim())
        try await f.queue.request(.cancelled, of: ["1"])
        try await f.tick()
        try await f.queue.request(.running, of: ["1"])
        #expect(try await f.tick([claim]).operations == [claim.run.token: .cancelled])
    }

    @Test(
        "an operation that a run has not received is applied when the job is requeued",
        arguments: [ControlOperation.paused, .cancelled])
    func putBack(_ operation: ControlOperation) async throws {
        let f = try await QueueFixture()
        try await f.push(#"{"url":"http://h/1","id":"1"}"#)
        let claim = try #require(try await f.claim())
        let timestamp = try await timestamp(f)
        try await f.queue.request(operation, of: ["1"], at: timestamp)
        try await f.tick()
        try await f.settle(claim, .released(why: "test"))
        try await expectStopped(by: operation, f, until: timestamp, startsAt: timestamp + 1)
    }

    @Test(
        "a push that comes while a pause or cancel is pending is done after the operation",
        arguments: [ControlOperation.paused, .cancelled])
    func pending(_ operation: ControlOperation) async throws {
        let f = try await QueueFixture()
        try await f.push(#"{"url":"http://h/1","id":"1"}"#)
        let claim = try #require(try await f.claim())
        let timestamp = try await timestamp(f)
        try await f.queue.request(operation, of: ["1"], at: timestamp)
        try await f.tick()
        try await f.push(element(timestamp + 1))
        #expect(try await f.claim() == nil)
        try await f.settle(claim, operation == .paused ? .paused : .cancelled)
        #expect(try await f.claim()?.run.id == "1")
        #expect(try await f.claim() == nil)
        try await f.expectOrder()
    }

    @Test(
        "a push that is newer than an operation and was claimed before it is not stopped",
        arguments: [ControlOperation.paused, .cancelled, .removed])
    func overtaken(_ operation: ControlOperation) async throws {
        let f = try await QueueFixture()
        let timestamp = try await timestamp(f)
        try await f.push(element(timestamp + 1))
        let claim = try #require(try await f.claim())
        try await f.queue.request(operation, of: ["1"], at: timestamp)
        #expect(try await f.tick([claim]).operations.isEmpty)
        // An operation without a time is for everything that was taken.
        try await f.redis.send(Command("HSET", f.queue.keys.want, "1", operation.rawValue))
        #expect(try await f.tick([claim]).operations == [claim.run.token: operation])
    }

    @Test("a resume that is older than a delayed push does not start it early, and a newer one does") func resumed()
        async throws
    {
        let f = try await QueueFixture()
        let timestamp = try await timestamp(f)
        try await f.push(#"{"url":"http://h/1","id":"1","delay":1000,"at":\#(timestamp + 1)}"#)
        #expect(try await f.claim() == nil)
        try await f.queue.request(.running, of: ["1"], at: timestamp)
        try await f.tick()
        #expect(try await f.state("1") == .scheduled)
        try await f.queue.request(.running, of: ["1"], at: timestamp + 2)
        try await f.tick()
        #expect(try await f.state("1") == .queued)
        try await f.expectOrder()
    }

    @Test(
        "an invalid operation is listed as rejected", arguments: ["PAUSED", "paused abc", "stop", "", "removed 12 13"])
    func nonsense(_ value: String) async throws {
        let f = try await QueueFixture()
        try await f.push(#"{"url":"http://h/1","id":"1","delay":1000}"#)
        #expect(try await f.claim() == nil)
        try await f.redis.send(Command("HSET", f.queue.keys.want, "1", value, "no id", "paused"))
        try await f.tick()
        #expect(try await f.state("1") == .scheduled)
        let rejected = try await f.queue.rejected(limit: 9).map { try JSON($0) }
        #expect(Set(rejected.map { $0["element"]?.string }) == [value, "no id paused"])
        #expect(rejected.allSatisfy { $0["reason"]?.string?.hasPrefix("want: ") == true }, "\(rejected)")
    }

    @Test("an operation reaches a job that was pushed with a clock that is ahead") func ahead() async throws {
        let f = try await QueueFixture()
        try await f.push(element(UnixTime.milliseconds + 1_000_000))
        let claim = try #require(try await f.claim())
        try await f.queue.request(.cancelled, of: ["1"])
        #expect(try await f.tick([claim]).operations.count == 1)
    }
}
