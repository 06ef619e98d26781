import Foundation
import Glibc
import HaulClient
import HaulTestSupport
import Testing

/// The steps of the tutorial, as they stand there: that they compile is half of the test.
@Suite struct TutorialTests {
    @Test("the tutorial's steps are the ones that are compiled here, and they work") func tutorial() async throws {
        let catalogue = SchemaValidator.repository.appending(path: "Sources/HaulClient/HaulClient.docc/A-service.md")
        let page = try String(contentsOf: catalogue, encoding: .utf8)
        let own = try String(contentsOf: URL(filePath: #filePath), encoding: .utf8)
        let steps = page.split(separator: "```swift step\n").dropFirst()
        #expect(steps.count == 6)
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
        try await eventually("the failed one to be forgotten") { try await queue.list(.failed).isEmpty }
        let moment = try #require(handles[0].pushedAt)
        #expect(try await goOn(handles[0].id, pushedAt: moment, on: queue).state == .completed)
        await #expect(throws: HaulError.self) { try await push(["ftp://h"], for: 1, on: queue) }
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
    let failed = try await queue.list(.failed, limit: 100)
    try await queue.retry(failed.filter { $0.error == .connect }.map(\.id))
    try await queue.remove(failed.filter { $0.error == .http(404) }.map(\.id))
}

func goOn(_ id: String, pushedAt moment: Int64, on queue: HaulQueue) async throws -> JobResult {
    try await queue.job(id, pushedAt: moment).result(timeout: .seconds(600))
}
