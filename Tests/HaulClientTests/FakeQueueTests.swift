import Glibc
import HaulClient
import HaulClientTesting
import HaulTestSupport
import Testing

/// A service as its author writes it. It knows nothing of fakes.
private struct FilmShop: Sendable {
    let queue: HaulQueue

    /// What becomes of an order, in a word.
    func buy(_ url: String, id: String) async throws -> String {
        var job = Job(url, id: id)
        job.path = "films/"
        let result = try await queue.push(job).result(timeout: .seconds(30))
        switch (result.state, result.error) {
        case (.completed, _): return "use \(result.file ?? "") of \(result.bytes ?? 0) bytes"
        case (.failed, .http(404)?): return "gone"
        case (.failed, let error?): return result.isRetryable ? "again: \(error)" : "tell: \(error)"
        default: return "cancelled"
        }
    }

    func bill(_ url: String, id: String) async throws -> String {
        var job = Job.request("POST", url, id: id)
        job.request.json = #"{"film":7}"#
        let result = try await queue.push(job).result(timeout: .seconds(30))
        guard let response = result.response else { return "no answer" }
        return "\(response.status) \(String(decoding: response.body, as: UTF8.self))"
    }
}

@Suite struct FakeQueueTests {
    @Test("a service is tested without Redis: the script says what becomes of each job") func service() async throws {
        let fake = FakeHaulQueue { job in
            switch job.urls[0] {
            case "https://h/missing": .failed(.http(404))
            case "https://h/slow": .failed(.tooSlow, message: "1 byte per second", isRetryable: true)
            case "https://h/stopped": .cancelled
            case "https://h/bill": .response(status: 201, body: Array("paid".utf8))
            case "https://h/refused": .response(status: 402, body: [0, 255])
            default: .completed(bytes: 7)
            }
        }
        let shop = FilmShop(queue: fake.queue)
        #expect(try await shop.buy("https://h/a.bin?k=1", id: "1") == "use films/a.bin of 7 bytes")
        #expect(try await shop.buy("https://h/missing", id: "2") == "gone")
        #expect(try await shop.buy("https://h/slow", id: "3") == "again: too_slow")
        #expect(try await shop.buy("https://h/stopped", id: "4") == "cancelled")
        #expect(try await shop.bill("https://h/bill", id: "5") == "201 paid")
        let refused = try await fake.queue.push(Job.request("GET", "https://h/refused", id: "6")).result()
        #expect(refused.error == .http(402) && refused.response?.body == [0, 255])
        #expect(fake.pushed.map(\.id) == ["1", "2", "3", "4", "5", "6"])
        #expect(fake.pushed[4].request.json == #"{"film":7}"#)
        #expect(try await collect(fake.queue.list(.failed, where: .init(error: .http(404)))).map(\.id) == ["2"])
        await #expect { try await fake.queue.push(Job("ftp://h/")) } throws: { ($0 as? HaulError)?.field == "url" }
        await fake.queue.close()
    }

    @Test("a test ends jobs itself, and the service sees progress, control operations and repeats")
    func steps() async throws {
        let fake = FakeHaulQueue("films")
        let queue = fake.queue
        let handle = try await queue.push(Job("https://h/a", id: "a"))
        var events = handle.events.makeAsyncIterator()
        #expect(try await events.next()?.name == "is running")
        fake.progress("a", received: 5, total: 10)
        let progress = try await events.next()
        #expect(progress?.name == "progress" && progress?.received == 5 && progress?.total == 10)
        try await handle.pause()
        #expect(try await events.next()?.name == "paused")
        try await handle.resume()
        #expect(try await events.next()?.name == "requeued")
        #expect(try await events.next()?.name == "started")
        #expect(fake.end("a", with: .completed(file: "b", bytes: 10)))
        #expect(try await events.next()?.finalState == .completed)
        #expect(try await events.next() == nil)
        #expect(!fake.end("a", with: .cancelled) && !fake.end("unknown", with: .cancelled))
        // The same push once more does nothing, and a later one runs again.
        var job = Job("https://h/a", id: "a")
        job.at = handle.pushedAt
        #expect(try await queue.push(job).result(timeout: .seconds(5)).file == "b")
        let again = try await queue.push(Job("https://h/a", id: "a"))
        try await again.cancel()
        #expect(try await again.result(timeout: .seconds(5)).state == .cancelled)
        try await again.remove()
        #expect(try await again.result(timeout: .seconds(5)).wasRemoved)
        fake.workers = 0
        let waiting = try await queue.push(Job("https://h/b", id: "b"))
        await #expect { try await waiting.result(timeout: .milliseconds(50)) } throws: {
            let error = $0 as? HaulError
            return error?.code == .timedOut && error?.message.contains("no worker serves") == true
        }
        await queue.close()
    }

    @Test("an unreachable Redis is seen as by a real service, and no reply is lost by it") func outage() async throws {
        let fake = FakeHaulQueue { _ in .completed() }
        let queue = fake.queue
        var job = Job("https://h/a", id: "a")
        job.replyTo = "shop"
        try await queue.push(job)
        do {
            var replies = try queue.replies(to: "shop").makeAsyncIterator()
            #expect(try await replies.next()?.id == "a")
        }
        fake.disconnect()
        await #expect { try await queue.push(job) } throws: { ($0 as? HaulError)?.code == .unreachable }
        fake.reconnect()
        // It was not acknowledged before the outage.
        var replies = try queue.replies(to: "shop").makeAsyncIterator()
        let reply = try #require(try await replies.next())
        #expect(reply.id == "a" && reply.result?.state == .completed)
        fake.disconnect()
        let next = Task { [replies] in
            var replies = replies
            return try await replies.next()
        }
        fake.reconnect()
        try await reply.acknowledge()
        job.id = "b"
        try await queue.push(job)
        #expect(try await value(of: next)?.id == "b")
        await queue.close()
    }

    @Test("what a service sees of the fake is what it sees of real workers") func fidelity() async throws {
        let bench = try await ClientBench()
        let fake = FakeHaulQueue { job in
            if job.urls[0].hasSuffix("/missing") { return .failed(.http(404)) }
            return job.kind == .request
                ? .response(body: Array("ok".utf8)) : .completed(bytes: Int64(ClientBench.bytes.count))
        }
        let real = try bench.queue()
        let worker = try bench.worker()
        var seen: [[String]] = []
        for queue in [real, fake.queue] {
            var lines: [String] = []
            for (id, path) in [("a", "/file"), ("b", "/missing")] {
                var job = bench.job(path, id: id)
                job.replyTo = "shop"
                job.path = "d/"
                try job.setMeta(["order": id])
                let handle = try await queue.push(job)
                let result = try await handle.result(timeout: .seconds(30))
                let error = "\(result.error?.rawValue ?? "") \(result.isRetryable)"
                lines.append("\(id) \(result.state) \(result.file ?? "") \(result.bytes ?? 0) \(error)")
                job.at = handle.pushedAt
                lines.append("\(try await queue.push(job).result(timeout: .seconds(30)).state)")
            }
            let request = Job.request("GET", bench.origin.url("/ok"), id: "r")
            let response = try await queue.push(request).result(timeout: .seconds(30)).response
            lines.append("\(response?.status ?? 0) \(String(decoding: response?.body ?? [], as: UTF8.self))")
            var replies = try queue.replies(to: "shop").makeAsyncIterator()
            for _ in 0..<2 {
                let reply = try #require(try await replies.next())
                lines.append("\(reply.id) \(reply.result?.state.rawValue ?? "") \(reply.result?.meta?.text ?? "")")
                try await reply.acknowledge()
            }
            for state in [JobState.completed, .failed] {
                lines.append(try await collect(queue.list(state)).map(\.id).sorted().joined(separator: " "))
            }
            await queue.close()
            seen.append(lines)
        }
        #expect(seen[0] == seen[1])
        worker.kill(SIGTERM)
        _ = try await worker.wait()
    }
}
