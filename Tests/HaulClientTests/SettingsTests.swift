import Foundation
import Glibc
import HaulClient
import HaulTestSupport
import Testing

@Suite struct SettingsTests {
    @Test("settings are read and changed, and a change with a wrong value sets nothing") func settings() async throws {
        let bench = try await ClientBench()
        let queue = try bench.queue()
        #expect(try await queue.settings() == QueueSettings())
        try await queue.changeSettings {
            $0.isPaused = true
            $0.maxRunning = 3
            $0.rate = 1000
            $0.starts = "30/min"
            $0.hostConnections = 2
            $0.maxSeconds = .seconds(600)
            $0.minSpeed = 1000
            $0.maxBytes = 1 << 30
            $0.maxResponsesBytes = 5000
            $0.keepFailed = .seconds(3600)
            $0.quietWorkers = ["w"]
        }
        #expect(
            try await bench.server.cli("HMGET", "haul:{default}:settings", "paused", "max_running", "quiet:w")
                == "1\n3\n1")
        // A setting of another client is kept.
        try await bench.server.cli("HSET", "haul:{default}:settings", "keep_completed", "7200")
        try await queue.changeSettings { $0.rate = "full 22:00-06:00 Europe/Berlin, 2M" }
        #expect(try await queue.settings().rate?.text == "full 22:00-06:00 Europe/Berlin, 2M")
        let now = try await queue.changeSettings {
            $0.isPaused = false
            $0.rate = nil
            $0.quietWorkers = []
        }
        #expect(now == (try await queue.settings()))
        #expect(now.maxSeconds == .seconds(600) && now.minSpeed == 1000 && now.maxBytes == 1 << 30)
        #expect(now.keepCompleted == .seconds(7200) && now.maxRunning == 3 && now.rate == nil && !now.isPaused)
        for change in [
            { $0.keepFailed = .seconds(1) }, { $0.rate = 0 }, { $0.rate = "2M at night" }, { $0.maxSeconds = .zero },
            { $0.minSpeed = 0 },
            { $0.maxBytes = -1 }, { $0.starts = "often" }, { $0.maxRunning = -1 },
            { $0.keepCompleted = .milliseconds(90_500) },
        ] as [@Sendable (inout QueueSettings) -> Void] {
            await #expect {
                try await queue.changeSettings { settings in
                    settings.isPaused = true
                    change(&settings)
                }
            } throws: {
                let error = $0 as? HaulError
                return error?.code == .invalidSetting && error?.field != nil
                    && error?.message.contains("must be") == true
            }
        }
        #expect(try await queue.settings() == now)
        await queue.close()
    }

    @Test("defaults, the base and limits of hosts are set, obeyed by a worker, and removed")
    func defaults() async throws {
        let bench = try await ClientBench()
        let queue = try bench.queue()
        try await queue.setDefault("path", to: "in/")
        try await queue.setDefault("headers", to: ["X-Team": "films"])
        try await queue.setBase(bench.origin.url("/films/"))
        let host = String(bench.origin.url("").dropFirst("http://".count))
        let limits = HostLimits(connections: 1, starts: "100/s", rate: 100_000_000)
        try await queue.setLimits(limits, of: host)
        #expect(try await queue.defaults().mapValues(\.text) == ["path": #""in/""#, "headers": #"{"X-Team":"films"}"#])
        #expect(try await queue.base() == bench.origin.url("/films/"))
        #expect(try await queue.hostLimits() == [host: limits])
        let worker = try bench.worker()
        #expect(try await queue.push(bench.job("/a", id: "a")).result(timeout: .seconds(30)).get().file == "in/a")
        #expect(bench.origin.requests.contains { $0.headers["x-team"] == "films" })
        try await bench.server.cli("LPUSH", "haul:{default}:jobs", #"{"url":"b","id":"b"}"#)
        #expect(try await queue.job("b").result(timeout: .seconds(30)).get().file == "in/b")
        #expect(bench.origin.requests.contains { $0.path == "/films/b" })
        for body in [
            { try await queue.setDefault("retries", to: -1) }, { try await queue.setDefault("url", to: "http://h/") },
            { try await queue.setDefault("base", to: "http://h/") }, { try await queue.removeDefault("nothing") },
            { try await queue.setBase("films/") }, { try await queue.setLimits(HostLimits(connections: -1), of: "h") },
            { try await queue.setLimits(HostLimits(starts: "often"), of: "h") },
            { try await queue.setLimits(HostLimits(rate: 0), of: "h") },
            { try await queue.setLimits(HostLimits(rate: "full 22:00-06:00 Europe/Nowhere, 2M"), of: "h") },
            { try await queue.changeSettings { $0.rate = "full 22:00-06:00 Europe/Nowhere, 2M" } },
            { try await queue.setLimits(nil, of: "Not A Host") },
        ] as [@Sendable () async throws -> Void] {
            await #expect { try await body() } throws: { ($0 as? HaulError)?.code == .invalidSetting }
        }
        try await queue.removeDefault("path")
        try await queue.removeDefault("headers")
        try await queue.setBase(nil)
        try await queue.setLimits(nil, of: host)
        #expect(try await bench.server.cli("EXISTS", "haul:{default}:defaults", "haul:{default}:limits") == "0")
        await queue.close()
        worker.kill(SIGTERM)
        _ = try await worker.wait()
    }

    @Test("results have the responses of requests, of uploads and of each file, unless they were dropped")
    func responses() async throws {
        let bench = try await ClientBench()
        let queue = try bench.queue()
        let worker = try bench.worker()
        var request = Job.request("GET", bench.origin.url("/small"), id: "r")
        request.request.maxResponse = 1 << 20
        // The file is longer than a response may be.
        let long = try await queue.push(request).result(timeout: .seconds(30))
        #expect(long.kind == .request && long.error == .tooLarge && long.response == nil && !long.wasResponseDropped)
        let missing = try await queue.push(.request("GET", bench.origin.url("/missing"), id: "m")).result(
            timeout: .seconds(30))
        #expect(missing.state == .failed && missing.response?.status == 404 && missing.response?.body.isEmpty == true)
        for name in ["one", "two"] {
            try name.write(toFile: bench.root.file(name), atomically: true, encoding: .utf8)
        }
        let files = [Job.Upload.File("one"), Job.Upload.File("two")]
        let sent = try await queue.push(.upload(each: files, to: bench.origin.url("/missing/"), id: "u")).result(
            timeout: .seconds(30))
        #expect(sent.kind == .upload && sent.state == .failed)
        #expect(sent.files.map(\.file) == ["one", "two"], "\(sent.files)")
        #expect(sent.files.allSatisfy { $0.status == 404 && $0.error == .http(404) })
        try await queue.changeSettings { $0.maxResponsesBytes = 0 }
        let dropped = try await queue.push(.request("GET", bench.origin.url("/missing"), id: "d")).result(
            timeout: .seconds(30))
        #expect(dropped.wasResponseDropped && dropped.response == nil)
        await queue.close()
        worker.kill(SIGTERM)
        _ = try await worker.wait()
    }
}
