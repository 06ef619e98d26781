import Foundation
import Glibc
import HaulClient
import HaulTestSupport
import Testing

/// The steps of the tutorial, word for word. That they compile is half of the test.
@Suite struct TutorialTests {
    @Test("the tutorial's steps are the code of this file, and they work") func tutorial() async throws {
        let catalogue = SchemaValidator.repository.appending(path: "Sources/HaulClient/HaulClient.docc/A-service.md")
        let page = try String(contentsOf: catalogue, encoding: .utf8)
        let own = try String(contentsOf: URL(filePath: #filePath), encoding: .utf8)
        let steps = page.split(separator: "```swift step\n").dropFirst()
        #expect(steps.count == 9)
        for step in steps {
            let code = step[..<(try #require(step.firstRange(of: "```"))).lowerBound]
            #expect(own.contains(code), "\(code)")
        }
        let bench = try await ClientBench()
        let queue = try bench.queue()
        let handles = try await push([bench.origin.url("/a"), bench.origin.url("/missing")], for: 7, on: queue)
        let worker = try bench.worker()
        try await show(handles[0])
        #expect(try await file(of: handles[0]) == "orders/7/a")
        #expect(try await file(of: handles[1]) == nil)
        try await retryWhatFailed(on: queue)
        try await eventually("the failed job to be removed") { try await collect(queue.list(.failed)).isEmpty }
        let timestamp = try #require(handles[0].pushedAt)
        #expect(try await goOn(handles[0].id, pushedAt: timestamp, on: queue).state == .completed)
        await #expect(throws: HaulError.self) { try await push(["ftp://h"], for: 1, on: queue) }
        let film = try careful(
            bench.origin.url("/b"), mirror: bench.origin.url("/a"), sha256: String(repeating: "0", count: 64))
        #expect(try await queue.push(film).result(timeout: .seconds(30)).error == .checksumMismatch)
        let billed = try await queue.push(bill(bench.origin.url("/missing"), film: 7))
        #expect(try await answer(to: billed)?.hasPrefix("404 ") == true)
        try FileManager.default.createDirectory(atPath: bench.root.file("in"), withIntermediateDirectories: true)
        for name in ["in/x", "in/y"] { try Data("bytes".utf8).write(to: URL(filePath: bench.root.file(name))) }
        let sent = try await queue.push(send("in/x", to: bench.origin.url("/ok/"))).result(timeout: .seconds(30))
        #expect(sent.state == .completed && sent.kind == .upload && sent.bytes == 5)
        #expect(try await sendAll(["in/x", "in/y"], to: bench.origin.url("/missing/"), on: queue) == ["in/x", "in/y"])
        let orders = Orders()
        for (id, path) in [("order-1", "/ok"), ("order-2", "/missing")] {
            var job = bench.job(path, id: id)
            job.replyTo = "shop"
            let handle = try await queue.push(job)
            await orders.add(id, pushedAt: try #require(handle.pushedAt))
        }
        try await settle(orders, on: queue)
        #expect(await orders.outcomes == ["order-1": .completed, "order-2": .failed])
        await queue.close()
        worker.kill(SIGTERM)
        _ = try await worker.wait()
    }
}

func order(_ url: String, for customer: Int) throws -> Job {
    var job = Job(url)
    job.path = "orders/\(customer)/"
    job.deadline = .seconds(3600)
    try job.setMeta(["customer": customer])
    return job
}

func careful(_ url: String, mirror: String, sha256: String) throws -> Job {
    var job = Job(id: "film-7", urls: [url, mirror])
    job.headers = [HeaderField("Authorization", "Bearer abc")]
    // nil if the text is not a checksum.
    job.checksum = Job.Checksum("sha256:\(sha256)")
    job.ifExists = .overwrite
    job.limitRate = 5_000_000
    job.retries = 2
    return job
}

func bill(_ url: String, film: Int) throws -> Job {
    var job = Job.request("POST", url, id: "bill-\(film)")
    job.request.query = [Job.Item("dry", "false")]
    job.request.json = #"{"film":\#(film)}"#
    job.request.expect = [201...201, 409...409]
    job.request.isIdempotent = true
    return job
}

func answer(to handle: JobHandle) async throws -> String? {
    let result = try await handle.result(timeout: .seconds(60))
    guard let response = result.response else { return nil }
    return "\(response.status) \(response["Content-Type"] ?? ""): \(String(decoding: response.body, as: UTF8.self))"
}

func send(_ file: String, to url: String) -> Job {
    var job = Job.upload(file, to: url)
    job.upload.contentDigest = .sha256
    return job
}

func sendAll(_ files: [String], to url: String, on queue: HaulQueue) async throws -> [String] {
    let job = Job.upload(each: files.map { Job.Upload.File($0) }, to: url, id: "send-all")
    let result = try await queue.push(job).result(timeout: .seconds(60))
    return result.files.filter { $0.error != nil }.map(\.file)
}

func push(_ urls: [String], for customer: Int, on queue: HaulQueue) async throws -> [JobHandle] {
    do {
        return try await queue.push(urls.map { try order($0, for: customer) })
    } catch let error as HaulError where error.code == .invalidJob {
        print("the field \(error.field ?? "") is wrong: \(error)")
        throw error
    }
}

func show(_ handle: JobHandle) async throws {
    for try await update in handle.events {
        switch update {
        case .event(let event) where event.kind == .progress:
            print("\(handle.id): \(Int((event.fraction ?? 0) * 100)) %")
        case .event(let event): print("\(handle.id): \(event.kind)")
        case .status(let status): print("\(handle.id) is \(status.state)")
        }
    }
}

func file(of handle: JobHandle) async throws -> String? {
    do {
        return try await handle.result(timeout: .seconds(600)).get().file
    } catch {
        switch (error.code, error.jobError) {
        case (.jobFailed, .http(404)?), (.jobFailed, .http(410)?): return nil
        case (.timedOut, _):
            print(error.message)
            try await handle.cancel()
            return nil
        default: throw error
        }
    }
}

func retryWhatFailed(on queue: HaulQueue) async throws {
    try await queue.cancel(queue.ids(withURL: "https://example.org/film.bin?sig=1"))
    for try await job in queue.list(.failed, where: .init(error: .connect)) { try await queue.retry([job.id]) }
    for try await job in queue.list(.failed, where: .init(error: .http(404))) { try await queue.remove([job.id]) }
}

func goOn(_ id: String, pushedAt timestamp: Int64, on queue: HaulQueue) async throws -> JobResult {
    try await queue.job(id, pushedAt: timestamp).result(timeout: .seconds(600))
}

actor Orders {
    private var pushes: [String: Int64] = [:]
    private(set) var outcomes: [String: JobState] = [:]

    func add(_ id: String, pushedAt timestamp: Int64) { pushes[id] = timestamp }

    func open(on queue: HaulQueue) -> [JobHandle] { pushes.map { queue.job($0.key, pushedAt: $0.value) } }

    /// The end of an earlier push of this id, or a second delivery of the same end, changes nothing.
    func close(_ id: String, endedAt timestamp: Int64, as state: JobState) {
        guard let pushed = pushes[id], pushed <= timestamp else { return }
        pushes[id] = nil
        outcomes[id] = state
    }
}

func settle(_ orders: Orders, on queue: HaulQueue) async throws {
    for try await reply in try queue.replies(to: "shop", open: { await orders.open(on: queue) }) {
        if let result = reply.result { await orders.close(reply.id, endedAt: reply.at, as: result.state) }
        try await reply.acknowledge()
        // A real service goes on.
        if await orders.open(on: queue).isEmpty { return }
    }
}
