import Foundation
import Glibc
import HaulContract
import HaulExecutors
import HaulTestSupport
import Testing

/// What a worker's log says about jobs, and what it must not contain.
@Suite struct JobLogTests {
    /// The lines of a JSON log with this message.
    private func lines(_ worker: ChildProcess, _ message: String) throws -> [JSON] {
        try worker.standardError.split(separator: "\n").map { try JSON($0.utf8) }
            .filter { $0["msg"]?.string == message }
    }

    @Test("each step of a job is one log line, with the job, the result and the amounts") func steps() async throws {
        let fleet = try await ProcessFleet()
        let worker = try ChildProcess(
            "haul", fleet.arguments("w") + ["--log-format", "json", "--log-level", "debug"])
        let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        try await fleet.push(
            fleet.origin.url("/file"), as: "file", more: #","connections":1,"meta":{"traceparent":"\#(trace)"}"#)
        try await fleet.waitForOffsets("file")
        try await fleet.server.cli("HSET", "haul:{default}:want", "file", "paused")
        try await fleet.wait("file", for: "paused")
        fleet.gate.open()
        try await fleet.server.cli("LPUSH", "haul:{default}:jobs", #"{"id":"file"}"#)
        try await fleet.wait("file", for: "completed")
        try await fleet.push("http://127.0.0.1:1/", as: "refused", more: #","retries":0"#)
        try await fleet.wait("refused", for: "failed")
        try await fleet.end(worker)

        for (message, level, count) in [
            ("job started", "debug", 3), ("job paused", "info", 1), ("job resumed", "info", 1),
            ("job completed", "info", 1), ("job failed", "warning", 1), ("working", "info", 1),
        ] {
            let output = try lines(worker, message)
            #expect(output.count == count, "\(message): \(worker.standardError)")
            #expect(output.allSatisfy { $0["level"]?.string == level && $0["worker"]?.string == "w" }, "\(message)")
        }
        let completed = try #require(try lines(worker, "job completed").first)
        #expect(completed["id"]?.string == "file")
        #expect(completed["queue"]?.string == "default")
        #expect(completed["host"]?.string == "127.0.0.1")
        #expect(completed["attempt"]?.integer == 1)
        #expect(completed["file"]?.string == "file")
        #expect(completed["bytes"]?.integer == ProcessFleet.bytes.count)
        #expect(completed["seconds"]?.double ?? -1 >= 0)
        #expect(completed["traceparent"]?.string == trace)
        let failed = try #require(try lines(worker, "job failed").first)
        #expect(failed["error"]?.string == "connect")
        #expect(failed["reason"]?.string?.isEmpty == false)
        #expect(failed["traceparent"] == nil)
    }

    @Test("the seconds of a run do not include the time in which the worker waited for a job") func seconds()
        async throws
    {
        let fleet = try await ProcessFleet(held: nil)
        let worker = try ChildProcess("haul", fleet.arguments("w") + ["--log-format", "json"])
        try await eventually("the worker to wait for a job") { try !lines(worker, "working").isEmpty }
        // The worker is idle for this time.
        try await Task.sleep(for: .seconds(1))
        let pushed = Stopwatch()
        try await fleet.push(fleet.origin.url("/file"), as: "file", more: "")
        try await fleet.wait("file", for: "completed")
        try await eventually("the line of the job") { try !lines(worker, "job completed").isEmpty }
        let passed = pushed.seconds
        let seconds = try #require(try lines(worker, "job completed").first?["seconds"]?.double)
        #expect(seconds <= passed, "the run took \(seconds) s, and the job was pushed \(passed) s ago")
        try await fleet.end(worker)
    }

    @Test("the log says that Redis is back after a failure") func back() async throws {
        let fleet = try await ProcessFleet(held: nil)
        let worker = try fleet.worker("w")
        try await fleet.wait(for: "working", from: worker)
        try await fleet.server.restart(by: SIGKILL)
        try await fleet.wait(for: "msg=\"Redis failed\"", from: worker)
        try await fleet.wait(for: "msg=\"Redis is back\"", from: worker)
        try await fleet.end(worker)
    }

    @Test("no secret is printed, published, or stored outside of the pushed element") func secrets() async throws {
        let fleet = try await ProcessFleet(["--requirepass", "planted-redis"], held: nil)
        let socket = fleet.server.socket
        let url = fleet.server.url + "?password=planted-redis"
        let proxy = try ProxyServer()
        let watcher = try ChildProcess("redis-cli", ["-s", socket, "-a", "planted-redis", "PSUBSCRIBE", "*"])
        let worker = try ChildProcess(
            "haul", fleet.arguments("w", url: url) + ["--log-level", "trace"],
            environment: ["HAUL_PROXY": proxy.url("http", credentials: "user:planted-proxy")])
        func cli(_ arguments: [String], password: String = "planted-redis") async throws -> String {
            let client = try ChildProcess(
                "redis-cli", ["-s", socket, "-a", password, "--no-auth-warning"] + arguments)
            _ = try await client.wait()
            return client.standardOutput.trimmingCharacters(in: .newlines)
        }
        let origin = fleet.origin.url("/file").replacing("://", with: "://user:planted-userinfo@")
        let headers = #"{"Authorization":"Bearer planted-header","Cookie":"planted-cookie"}"#
        for (id, url) in [
            ("good", "\(origin)?token=planted-query"),
            ("bad", "http://user:planted-userinfo@127.0.0.1:1/x?planted-query"),
            ("name", "http://planted-userinfo:x@no-such-host.invalid/?sig=planted-query#planted-fragment"),
        ] {
            let element = #"{"url":"\#(url)","id":"\#(id)","retries":1,"headers":\#(headers)}"#
            _ = try await cli(["LPUSH", "haul:{default}:jobs", element])
        }
        for id in ["good", "bad", "name"] {
            try await eventually("\(id) to end or fail", within: .seconds(60), every: .milliseconds(100)) {
                let fields = try await cli(["HMGET", "haul:{default}:job:\(id)", "state", "error"]).split(
                    separator: "\n")
                return fields.first == "completed" || fields.count > 1
            }
        }
        _ = try await cli(["CONFIG", "SET", "requirepass", "planted-other"])
        _ = try await cli(["CLIENT", "KILL", "TYPE", "normal"], password: "planted-other")
        try await fleet.wait(for: "Redis failed", from: worker)
        let script = """
            local all = {}
            for _, key in ipairs(redis.call('KEYS', '*')) do
              if not key:find(':spec:', 1, true) and not key:find(':jobs', 1, true) then
                all[#all + 1] = key .. ' ' .. redis.call('DUMP', key)
                if redis.call('TYPE', key).ok == 'hash' then
                  all[#all + 1] = table.concat(redis.call('HGETALL', key), ' ')
                end
              end
            end
            return table.concat(all, '\\n')
            """
        let keys = try await cli(["EVAL", script, "0"], password: "planted-other")
        #expect(keys.contains("job:good"))
        #expect(watcher.standardOutput.contains("started") || watcher.standardOutput.contains("retrying"))
        worker.kill(SIGTERM)
        _ = try await worker.wait()
        watcher.kill(SIGTERM)
        for (place, text) in [
            ("the log", worker.standardError + worker.standardOutput), ("events", watcher.standardOutput),
            ("keys", keys),
        ] {
            let leaks = text.split(separator: "\n").filter { $0.contains("planted") }
            #expect(leaks.isEmpty, "\(place): \(leaks)")
        }
    }
}
