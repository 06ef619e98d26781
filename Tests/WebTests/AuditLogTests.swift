import HaulBus
import HaulContract
import HaulHTTPServer
import HaulTestSupport
import Logging
import Testing

@testable import HaulLogs
@testable import HaulWeb

/// What `haul web` logs.
@Suite struct AuditLogTests {
    /// A log whose lines a test reads.
    private final class Lines: Sendable {
        let all = Shared<[String]>([])

        var log: Logger { Logger(label: "test", factory: { _ in Handler(lines: self) }) }

        struct Handler: LogHandler {
            let lines: Lines
            var logLevel = Logger.Level.info
            var metadata: Logger.Metadata = [:]
            subscript(metadataKey key: String) -> Logger.Metadata.Value? {
                get { metadata[key] }
                set { metadata[key] = newValue }
            }

            func log(event: LogEvent) {
                let line = LogFormat.logfmt.line(
                    LogFormat.Entry(
                        time: "T", level: event.level, message: event.message.description,
                        fields: LogFormat.sorted(event.metadata ?? [:])))
                lines.all.change { $0.append(String(line.dropFirst("time=T ".count).dropLast())) }
            }
        }

        func take() -> [String] {
            all.change { lines in
                defer { lines = [] }
                return lines
            }
        }
    }

    private let alice: [(name: String, value: String)] = [("authorization", "Basic YWxpY2U6b3BlbiBzZXNhbWU=")]

    private func fixture(_ lines: Lines) async throws -> WebFixture {
        try await WebFixture {
            $0.log = lines.log
            $0.accounts = try? Accounts(
                """
                alice operator \(PasswordHash(password: "open sesame", cost: 4).text)
                grafana viewer \(Accounts.hash(token: "secret-token"))
                """)
        }
    }

    @Test("calls of aria2 have the same lines: who signs in, and which change was refused or has failed")
    func aria2() async throws {
        let lines = Lines()
        let fixture = try await WebFixture {
            $0.log = lines.log
            $0.aria2 = .default
            $0.accounts = try? Accounts(
                "o operator \(Accounts.hash(token: "change"))\nv viewer \(Accounts.hash(token: "look"))")
        }
        func call(_ method: String, _ token: String) async -> String {
            let text = #"{"id":1,"method":"aria2.\#(method)","params":["token:\#(token)"]}"#
            return await fixture.send("POST", "/jsonrpc", text).text
        }
        _ = await call("getVersion", "look")
        #expect(lines.take() == [#"level=info msg="signed in with a token" address=127.0.0.1 role=viewer user=v"#])
        #expect(await call("pauseAll", "look").contains("a viewer changes nothing"))
        #expect(lines.take().map { $0.contains("change refused") && $0.contains("aria2.pauseAll") } == [true])
        #expect(await call("getVersion", "wrong").contains("Unauthorized"))
        #expect(lines.take().map { $0.contains("sign-in failed") } == [true])
        try await fixture.server.cli("LPUSH", "haul:{default}:jobs", #"{"url":"http://h/","id":"a"}"#)
        _ = await call("getVersion", "change")
        _ = lines.take()
        // A key of another type is an error for every change.
        try await fixture.server.cli("SET", "haul:{default}:want", "no hash")
        #expect(await call("pauseAll", "change").contains("error"))
        let failed = lines.take()
        #expect(failed.contains { $0.contains("change failed, possibly in part") }, "\(failed)")
    }

    @Test("a line says who signs in, and from where; a password is in no line")
    func signingIn() async throws {
        let lines = Lines()
        let fixture = try await fixture(lines)
        for _ in 0..<2 { _ = await fixture.send("GET", "/api/session", fields: alice, from: "192.0.2.7") }
        #expect(lines.take() == ["level=info msg=\"signed in\" address=192.0.2.7 role=operator user=alice"])
        for _ in 0..<2 {
            _ = await fixture.send("GET", "/api/session", fields: [("authorization", "Bearer secret-token")])
        }
        #expect(
            lines.take() == ["level=info msg=\"signed in with a token\" address=127.0.0.1 role=viewer user=grafana"])
        // A name of a line feed, an escape and "x", and the password "secret".
        _ = await fixture.send("GET", "/", fields: [("authorization", "Basic ChtbeDpzZWNyZXQ=")], from: "2001:db8::1")
        #expect(
            lines.take() == [
                #"level=warning msg="sign-in failed" reason="the name, the password or the token is wrong" address=2001:db8::1 user="\n\u001b[x""#
            ])
        _ = await fixture.get("/")
        #expect(lines.take() == [], "a request without credentials is how a browser begins")
    }

    @Test("a line names each change with its user, action, count and ids")
    func changes() async throws {
        let lines = Lines()
        let fixture = try await fixture(lines)
        func change(_ method: String, _ path: String, _ body: String) async -> String {
            _ = await fixture.send(method, "/api/queues/default/" + path, body, fields: alice)
            return lines.take().last ?? ""
        }
        func expected(_ action: String, _ rest: String) -> String {
            "level=notice msg=changed queue=default action=\(action) address=127.0.0.1 " + rest
        }
        #expect(
            await change("POST", "jobs", #"[{"url":"http://me:secret@h/a","id":"a"},{"url":"http://h/b","id":"b"}]"#)
                == expected("push", #"ids="a b" jobs=2 role=operator user=alice"#))
        #expect(
            await change("POST", "control", #"{"action":"pause","ids":["a"]}"#)
                == expected("pause", "ids=a jobs=1 role=operator user=alice"))
        let cancelled = await change("POST", "control", #"{"action":"cancel","where":{"state":"queued","host":"h"}}"#)
        #expect(
            cancelled.contains("action=cancel") && cancelled.contains(#"where="state=queued host=h""#)
                && cancelled.contains("jobs=2"), "\(cancelled)")
        #expect(
            await change("POST", "control", #"{"action":"cancel","batch":"night"}"#)
                == expected("cancel", "batch=night role=operator user=alice"))
        #expect(
            await change(
                "PATCH", "settings",
                #"{"paused":true,"defaults":{"headers":{"X-Key":"secret"}},"limits":{"h":{"connections":0}}}"#)
                == expected(
                    "set",
                    #"role=operator settings="paused=1 defaults.headers limits.h={\"connections\":0}" user=alice"#))
        #expect(await change("POST", "control", #"{"action":"explode"}"#) == "", "what was refused has changed nothing")
        _ = await fixture.send(
            "POST", WebFixture.control, "{}", fields: [("authorization", "Bearer secret-token")])
        #expect(lines.take().last?.contains("change refused") == true)
    }

    @Test("the queue keeps who changed what, and a job and a paused queue name whoever stopped them")
    func recorded() async throws {
        let fixture = try await fixture(Lines())
        func change(_ method: String, _ path: String, _ body: String) async {
            _ = await fixture.send(method, "/api/queues/default/" + path, body, fields: alice)
        }
        await change("POST", "jobs", #"[{"url":"http://h/a","id":"a"},{"url":"http://h/b","id":"b"}]"#)
        await change("POST", "control", #"{"action":"pause","where":{"state":"queued","host":"h"}}"#)
        await change("PATCH", "settings", #"{"paused":true,"defaults":{"headers":{"X-Key":"secret"}}}"#)
        // This changes nothing, because neither job has failed.
        await change("POST", "control", #"{"action":"retry","ids":["a","b"],"state":"failed"}"#)
        let text = await fixture.send("GET", "/api/queues/default/changes", fields: alice).text
        #expect(!text.contains("secret"), "\(text)")
        let changes = try #require(try JSON(text)["changes"]?.array)
        #expect(changes.map { $0["action"]?.string } == ["set", "pause"], "a push is not among them: \(text)")
        #expect(changes.allSatisfy { $0["by"]?.string == "alice" && $0["via"]?.string == "page" }, "\(text)")
        #expect(changes.last?["jobs"]?.integer == 2 && changes.last?["where"]?.string == "state=queued host=h")
        let overview = try JSON(await fixture.send("GET", "/api/queues/default", fields: alice).text)
        #expect(overview["paused_by"]?.string == "alice" && overview["paused_at"]?.integer == changes[0]["at"]?.integer)

        let queue = fixture.queue
        try await queue.setSetting("paused", to: nil)
        for _ in 0..<2 { _ = try await fixture.claim() }
        for id in ["a", "b"] {
            let job = try #require(try await queue.job(id))
            let change = try await queue.changeThatStopped(job)
            #expect(change?.by == "alice", "\(job.state) \(job.fields) \(text)")
        }
    }

    @Test("a thousand failures are some lines, and one that counts the others")
    func flood() async throws {
        let lines = Lines()
        let audit = AuditLog(lines.log, maxRefusals: 5, window: .milliseconds(300))
        for number in 0..<1000 { audit.signInFailed("user\(number)", from: .unixSocket, "wrong") }
        // A busy machine may need several windows for them.
        func counts() -> [Int] {
            lines.all.value.compactMap { line in
                line.contains("more refusals were not logged") ? Int(line.split(separator: "=").last ?? "") : nil
            }
        }
        func logged() -> Int { lines.all.value.count { $0.contains("sign-in failed") } }
        try await eventually("the rest to be counted") { counts().reduce(logged(), +) == 1000 }
        #expect(!counts().isEmpty && logged() <= 5 * (counts().count + 1))
        _ = lines.take()
        try await eventually("a later one to be logged") {
            audit.signInFailed("late", from: .unixSocket, "wrong")
            return lines.take().contains { $0.contains("user=late") }
        }
    }

    @Test("a failure of Redis is one line, and so is its end")
    func redisFailures() async throws {
        let lines = Lines()
        let fixture = try await fixture(lines)
        _ = await fixture.send("GET", "/api/queues/default", fields: alice)
        _ = lines.take()
        fixture.server.signal(9)
        try await eventually("Redis to fail") { await fixture.get("/readyz").status == 503 }
        for _ in 0..<3 { _ = await fixture.get("/readyz") }
        let found = lines.take()
        #expect(found.count == 1 && found[0].hasPrefix(#"level=warning msg="Redis failed" reason="#), "\(found)")
    }

    @Test("the client's address is the proxy's last one if the proxy is trusted")
    func forwarded() async throws {
        for isTrusted in [true, false] {
            let lines = Lines()
            let fixture = try await WebFixture {
                $0.log = lines.log
                $0.trustsForwardedFor = isTrusted
                $0.accounts = try? Accounts("alice operator \(PasswordHash(password: "x", cost: 4).text)")
            }
            // U+0D4E makes one Character of itself and the comma.
            for sent in ["10.0.0.1", "10.0.0.1\u{0D4E}"] {
                _ = await fixture.send(
                    "GET", "/",
                    fields: [("authorization", "Basic YTpi"), ("x-forwarded-for", sent + ", 192.0.2.9")])
                #expect(lines.take().first?.contains("address=\(isTrusted ? "192.0.2.9" : "127.0.0.1") ") == true)
            }
        }
    }
}
