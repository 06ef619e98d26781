import Glibc
import HaulClient
import HaulTestSupport
import Testing

@Suite struct RepliesTests {
    private func job(_ path: String, id: String, of bench: ClientBench) -> Job {
        var job = bench.job(path, id: id)
        job.replyTo = "shop"
        return job
    }

    /// The next reply. Fails if none comes within a minute.
    private func next(_ replies: inout Replies.AsyncIterator) async throws -> Reply {
        let alarm = Task { try await Task.sleep(for: .seconds(60)) }
        defer { alarm.cancel() }
        return try #require(try await replies.next())
    }

    @Test(
        "an end is delivered until it is acknowledged, although the consumer ends and Redis is killed meanwhile",
        .timeLimit(.minutes(2)))
    func acknowledgement() async throws {
        let bench = try await ClientBench(["--appendonly", "yes", "--appendfsync", "always"])
        let queue = try bench.queue()
        let worker = try bench.worker()
        try await queue.push([job("/missing", id: "a", of: bench), job("/ok", id: "b", of: bench)])
        do {
            var replies = try queue.replies(to: "shop").makeAsyncIterator()
            let first = try await next(&replies)
            let second = try await next(&replies)
            #expect(Set([first.id, second.id]) == ["a", "b"])
            let failed = try #require([first, second].first { $0.id == "a" }?.result)
            #expect(failed.state == .failed && failed.error == .http(404) && !failed.isRetryable)
            // Only one of the two is recorded before the consumer ends.
            try await (first.id == "b" ? first : second).acknowledge()
        }
        #expect(try await bench.server.cli("LLEN", "haul:{default}:reply:shop:taken") == "1")
        #expect(Int(try await bench.server.cli("PTTL", "haul:{default}:reply:shop:taken")) ?? 0 > 86_400_000)
        try await bench.server.restart(by: SIGKILL)
        // Another consumer of this name, as after a restart of the service.
        let later = try bench.queue()
        var replies = try later.replies(to: "shop").makeAsyncIterator()
        let again = try await next(&replies)
        #expect(again.id == "a" && again.result?.error == .http(404))
        // The consumer stays while Redis is killed again, and still gets what comes after that.
        try await bench.server.restart(by: SIGKILL)
        try await again.acknowledge()
        try await again.acknowledge()
        try await queue.push(job("/ok?2", id: "c", of: bench))
        #expect(try await next(&replies).id == "c")
        #expect(try await bench.server.cli("LLEN", "haul:{default}:reply:shop:taken") == "1")
        await later.close()
        await queue.close()
        worker.kill(SIGTERM)
        _ = try await worker.wait()
    }

    @Test(
        "an end that both the list and the hash report is delivered once, and one whose reply was lost is found in the hash"
    )
    func open() async throws {
        let bench = try await ClientBench()
        let queue = try bench.queue()
        let worker = try bench.worker()
        let lost = try await queue.push(job("/missing", id: "lost", of: bench))
        _ = try await lost.result(timeout: .seconds(30))
        #expect(try await bench.server.cli("DEL", "haul:{default}:reply:shop") == "1")
        let both = try await queue.push(job("/ok", id: "both", of: bench))
        _ = try await both.result(timeout: .seconds(30))
        let removed = try await queue.push(bench.job("/held", id: "removed"))
        try await removed.remove()
        #expect(try await removed.result(timeout: .seconds(30)).state == .cancelled)
        try await eventually("the hash to be gone") { try await removed.status() == nil }
        // The hash of this job has only the end of an earlier push.
        let earlier = try #require(both.pushedAt)
        var replies = try queue.replies(
            to: "shop",
            open: { [lost, both, removed, queue.job("both", pushedAt: earlier + 3_600_000)] }, every: .milliseconds(50)
        ).makeAsyncIterator()
        var ends: [String: Reply] = [:]
        while ends.count < 3 {
            let reply = try await next(&replies)
            #expect(ends.updateValue(reply, forKey: reply.id) == nil, "\(reply.id) comes twice")
            try await reply.acknowledge()
        }
        #expect(ends["lost"]?.result?.error == .http(404) && ends["lost"]?.at ?? 0 >= lost.pushedAt ?? .max)
        #expect(ends["both"]?.result?.state == .completed && ends["removed"]?.result?.wasRemoved == true)
        // The sweeps go on, and the next thing to be delivered is new.
        try await queue.push(job("/ok?2", id: "new", of: bench))
        #expect(try await next(&replies).id == "new")
        await queue.close()
        worker.kill(SIGTERM)
        _ = try await worker.wait()
    }

    @Test("an end from the hash does not come again, although its reply was taken before it was acknowledged")
    func laterReply() async throws {
        let bench = try await ClientBench()
        let queue = try bench.queue()
        let worker = try bench.worker()
        let handle = try await queue.push(job("/ok", id: "a", of: bench))
        _ = try await handle.result(timeout: .seconds(30))
        let list = "haul:{default}:reply:shop"
        let text = try await bench.server.cli("LRANGE", list, "0", "-1")
        _ = try await bench.server.cli("DEL", list)
        var replies = try queue.replies(to: "shop", open: { [handle] }, every: .milliseconds(50)).makeAsyncIterator()
        let first = try await next(&replies)
        #expect(first.id == "a")
        // The reply comes late, and is taken before the next one.
        _ = try await bench.server.cli("LPUSH", list, text)
        try await queue.push(job("/ok?2", id: "new", of: bench))
        let second = try await next(&replies)
        #expect(second.id == "new")
        #expect(try await bench.server.cli("LLEN", list + ":taken") == "2")
        try await first.acknowledge()
        try await second.acknowledge()
        #expect(try await bench.server.cli("LLEN", list + ":taken") == "0")
        await queue.close()
        worker.kill(SIGTERM)
        _ = try await worker.wait()
    }

    @Test("rejected elements are delivered, and replies without a final state are ignored with a warning")
    func ignored() async throws {
        let bench = try await ClientBench()
        let log = LogLines()
        let queue = try HaulQueue(redis: bench.server.url, logger: log.logger)
        let list = "haul:{default}:reply:shop"
        for text in ["no JSON s3cret", #"{"event":"duplicate","id":"x","reason":"crowded","meta":"s3cret"}"#] {
            try await bench.server.cli("LPUSH", list, text)
        }
        let worker = try bench.worker()
        let element = #"{"url":"ftp://h/","id":"r","reply_to":"shop","meta":7}"#
        try await bench.server.cli("LPUSH", "haul:{default}:jobs", element)
        var replies = try queue.replies(to: "shop").makeAsyncIterator()
        let reply = try await next(&replies)
        guard case .rejected(let reason, let meta) = reply.end else {
            Issue.record("\(reply.end)")
            return
        }
        #expect(reply.id == "r" && reason.hasPrefix("url: ") && meta?.integer == 7)
        try await reply.acknowledge()
        #expect(try await bench.server.cli("LLEN", "\(list):taken") == "0")
        let warnings = log.lines.filter { $0.contains("ignoring a reply, because it is not an end") }
        #expect(warnings.count == 2 && warnings.contains { $0.contains("crowded") }, "\(log.lines)")
        #expect(!log.lines.contains { $0.contains("s3cret") })
        await queue.close()
        worker.kill(SIGTERM)
        _ = try await worker.wait()
    }

    @Test("a consumer ends with its task and with the queue, and a wrong name is refused") func ends() async throws {
        let bench = try await ClientBench()
        let queue = try bench.queue()
        #expect { try queue.replies(to: "a b") } throws: { ($0 as? HaulError)?.field == "reply_to" }
        func consume() -> Task<Void, any Error> {
            Task { for try await _ in try queue.replies(to: "shop") {} }
        }
        func waitForConsumer() async throws {
            try await eventually("the consumer") {
                try await bench.server.cli("CLIENT", "LIST").contains("cmd=blmove")
            }
        }
        let cancelled = consume()
        try await waitForConsumer()
        cancelled.cancel()
        await #expect { try await cancelled.value } throws: { ($0 as? HaulError)?.code == .cancelled }
        try await eventually("the connection to be closed") {
            try await !bench.server.cli("CLIENT", "LIST").contains("haul-client-replies")
        }
        let closed = consume()
        try await waitForConsumer()
        await queue.close()
        await #expect { try await closed.value } throws: { ($0 as? HaulError)?.code == .closed }
        await #expect { try await consume().value } throws: { ($0 as? HaulError)?.code == .closed }
        struct Stop: Error {}
        let other = try bench.queue()
        await #expect(throws: Stop.self) {
            for try await _ in try other.replies(to: "shop", open: { throw Stop() }) {}
        }
        await other.close()
    }
}
