import Foundation
import Glibc
import HaulRedis
import HaulTestSupport
import Testing

@testable import HaulClient

@Suite struct ResultTests {
    @Test("a result can be awaited before and after the end, and has all details") func ends() async throws {
        let bench = try await ClientBench()
        let queue = try bench.queue()
        var job = bench.job("/held", id: "a")
        job.checksum = Job.Checksum("sha256:" + ClientBench.bytes.sha256)
        job.path = "d/file"
        try job.setMeta(["n": 1])
        let handle = try await queue.push(job)
        async let before = handle.result(timeout: .seconds(60))
        try await bench.waitForListener("a")
        let worker = try bench.worker()
        bench.gate.open()
        let result = try await before.get()
        #expect(result.file == "d/file" && result.bytes == ClientBench.bytes.count)
        #expect(result.checksum == job.checksum?.description && result.meta?["n"]?.integer == 1)
        #expect((result.seconds ?? -1) > 0 && result.error == nil && !result.wasRemoved)
        #expect(try await handle.result(timeout: .seconds(5)) == result)
        #expect(try await queue.job("a").result() == result)
        // The result of a second push is the end of that push, although the job had ended before.
        let again = try await queue.push(job).result(timeout: .seconds(30))
        #expect(again.state == .completed && again.seconds == 0)
        let failed = try await queue.push(bench.job("/missing", id: "b")).result(timeout: .seconds(30))
        #expect(failed.state == .failed && failed.error == .http(404) && failed.message?.isEmpty == false)
        #expect { try failed.get() } throws: {
            let error = $0 as? HaulError
            return error?.code == .jobFailed && error?.jobError == .http(404)
        }
        #expect(try await queue.stats().counts[.failed] == 1)
        #expect(try await collect(queue.list(.failed)).map(\.error) == [.http(404)])
        #expect(try await queue.workers().map(\.id) == ["w"])
        #expect(try await queue.workers().map(\.state) == [.working])
        #expect(try await bench.listeners("a") == 0)
        await queue.close()
        worker.kill(SIGTERM)
        _ = try await worker.wait()
    }

    @Test("lists of jobs are paused, resumed, cancelled and removed, and waiting callers get results")
    func steering() async throws {
        let bench = try await ClientBench()
        let queue = try bench.queue()
        let worker = try bench.worker()
        let handles = try await queue.push(["a", "b", "c"].map { (id: String) in bench.job("/held/\(id)", id: id) })
        for handle in handles { try await bench.wait(handle.id, for: "running") }
        let ids = handles.map(\.id)
        try await queue.pause(ids)
        for id in ids { try await bench.wait(id, for: "paused") }
        #expect(Set(try await queue.ids(in: .paused)) == Set(ids))
        try await queue.resume(["a"])
        try await queue.cancel(["b"])
        try await queue.remove(["c"])
        #expect(try await handles[1].result(timeout: .seconds(20)).state == .cancelled)
        let removed = try await handles[2].result(timeout: .seconds(20))
        #expect(removed.state == .cancelled)
        #expect { try removed.get() } throws: { ($0 as? HaulError)?.code == .jobCancelled }
        #expect(try await handles[2].result(timeout: .seconds(20)).wasRemoved)
        bench.gate.open()
        #expect(try await handles[0].result(timeout: .seconds(30)).state == .completed)
        await queue.close()
        worker.kill(SIGTERM)
        _ = try await worker.wait()
    }

    @Test("a wait ends at its timeout, with its task and with the queue, and its error says why")
    func waits() async throws {
        let bench = try await ClientBench()
        let queue = try bench.queue()
        let handle = try await queue.push(bench.job("/held", id: "a"))
        await #expect { try await handle.result(timeout: .milliseconds(50)) } throws: {
            let error = $0 as? HaulError
            return error?.code == .timedOut && error?.message.contains("no worker serves") == true
        }
        let waiting = Task { try await handle.result() }
        try await bench.waitForListener("a")
        waiting.cancel()
        await #expect { try await waiting.value } throws: { ($0 as? HaulError)?.code == .cancelled }
        try await eventually("the subscription to end") { try await bench.listeners("a") == 0 }
        let following = Task { try await collect(handle.events) }
        try await bench.waitForListener("a")
        following.cancel()
        await #expect { try await following.value } throws: { ($0 as? HaulError)?.code == .cancelled }
        let last = Task { try await handle.result() }
        try await bench.waitForListener("a")
        await queue.close()
        await #expect { try await last.value } throws: { ($0 as? HaulError)?.code == .closed }
        // After `close` every call fails at once.
        await #expect { try await handle.result() } throws: { ($0 as? HaulError)?.code == .closed }
        await #expect { try await handle.status() } throws: { ($0 as? HaulError)?.code == .closed }
        await #expect { try await queue.push(bench.job("/b", id: "b")) } throws: { ($0 as? HaulError)?.code == .closed }
    }

    @Test("callers who do not know when the job was pushed learn that it was removed") func removed() async throws {
        let bench = try await ClientBench()
        let queue = try bench.queue()
        let worker = try bench.worker()
        try await queue.push(bench.job("/held/a", id: "a"))
        try await bench.wait("a", for: "running")
        let handle = queue.job("a")
        let result = Task { try await handle.result(timeout: .seconds(45)) }
        var updates = handle.events.makeAsyncIterator()
        #expect(try await updates.next()?.name == "is running")
        try await bench.waitForListener("a")
        try await handle.remove()
        let ended = try await value(of: result)
        #expect(ended.state == .cancelled)
        let following = Task { [updates] in
            var updates = updates
            while try await updates.next() != nil {}
        }
        // The event of the end may be left out: what is known is that the job is gone.
        try await value(of: following)
        await queue.close()
        worker.kill(SIGTERM)
        _ = try await worker.wait()
    }

    @Test("a caller who does not know when the job was pushed does not take a lost record for a removal")
    func lostRecord()
        async throws
    {
        let bench = try await ClientBench()
        let queue = try bench.queue()
        try await queue.push(bench.job("/a", id: "a"))
        let handle = queue.job("a")
        let known = try await handle.readEndState(wasKnown: true)
        guard case .open = known else { return #expect(Bool(false), "\(known)") }
        await queue.close()
    }

    @Test("a rejection that is not about the awaited push ends no wait") func othersRejected() async throws {
        let bench = try await ClientBench()
        let queue = try bench.queue()
        let worker = try bench.worker()
        let handle = try await queue.push(bench.job("/held", id: "a"))
        async let result = handle.result(timeout: .seconds(60))
        let other = try bench.queue()
        async let known = other.job("a").result(timeout: .seconds(60))
        let events = Task { try await collect(handle.events) }
        try await bench.wait("a", for: "running")
        try await eventually("both connections to listen") { try await bench.listeners("a") == 2 }
        // A word that means nothing, and an element of another producer for the same job.
        try await bench.server.cli("HSET", "haul:{default}:want", "a", "pause")
        try await bench.server.cli("LPUSH", "haul:{default}:jobs", #"{"id":"a","url":"http://h/","retries":"5"}"#)
        try await eventually("two rejections") {
            try await bench.server.cli("LLEN", "haul:{default}:rejected") == "2"
        }
        bench.gate.open()
        #expect(try await result.state == .completed)
        #expect(try await known.state == .completed)
        let names = try await value(of: events).map(\.name)
        #expect(names.filter { $0 == "rejected" }.count == 2 && names.last == "completed")
        await other.close()
        await queue.close()
        worker.kill(SIGTERM)
        _ = try await worker.wait()
    }

    @Test("a push that a worker cannot read is reported as rejected, also to a late caller")
    func rejected() async throws {
        let bench = try await ClientBench()
        let queue = try bench.queue()
        let worker = try bench.worker()
        // The job must be known. An unknown job would fail and not return to its earlier state.
        #expect(try await queue.push(bench.job("/a", id: "a")).result(timeout: .seconds(30)).state == .completed)
        try await eventually("no subscriber") { try await bench.listeners("a") == 0 }
        var bad = Job("http://\u{2100}.invalid/", id: "a")
        let at = Int64(Date().timeIntervalSince1970 * 1000) + 60_000
        bad.at = at
        let events = Task { try await collect(queue.job("a", pushedAt: at).events) }
        try await bench.waitForListener("a")
        let handle = try await queue.push(bad)
        try await eventually("the push to be rejected") {
            try await bench.server.cli("LLEN", "haul:{default}:rejected") == "1"
        }
        #expect(try await value(of: events).map(\.name).last == "rejected")
        // An event of the rejection was published before this subscription.
        let late = try await collect(queue.job("a", pushedAt: at).events)
        guard case .event(let event) = late.last else {
            Issue.record("\(late)")
            return
        }
        #expect(event.name == "rejected" && event.id == "a" && event.queue == "default" && event.at > 0)
        #expect(event["reason"]?.string?.hasPrefix("url") == true)
        await #expect { try await handle.result(timeout: .seconds(30)) } throws: {
            let error = $0 as? HaulError
            return error?.code == .rejected && error?.message.hasPrefix("url") == true
        }
        await queue.close()
        worker.kill(SIGTERM)
        _ = try await worker.wait()
    }

    @Test(
        "a Redis that refuses commands for a while is as one that cannot be reached, so that waits go on",
        arguments: [
            .loading, .busy, .readOnly, .tryAgain, .ask, .outOfMemory, .misconfigured, .noReplicas, .unblocked,
        ] as [RedisError.Code])
    func refusals(_ code: RedisError.Code) {
        #expect(HaulError(RedisError(code, "it refuses")).code == .unreachable)
    }
}
