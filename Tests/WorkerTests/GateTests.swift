import Foundation
import Glibc
import HaulBus
import HaulContract
import HaulObjectStore
import HaulRedis
import HaulStorage
import HaulTestSupport
import Testing

@testable import HaulWorker

/// Workers whose gate sees each download before it gets its name.
@Suite(.timeLimit(.minutes(6))) struct GateTests {
    private static let sizes: [Int64] = [10_000, 3_000_000]

    /// A fleet, a directory for what its gates write, and an origin with a file for each size: `/10000`.
    private struct Bench {
        let fleet: Fleet
        let notes = TemporaryDirectory()
        let origin: OriginServer

        init() async throws {
            fleet = try await Fleet()
            origin = try OriginServer { request in
                let name = request.path.split(separator: "?")[0].split(separator: "/").last ?? ""
                return .file(GateTests.file(Int64(name) ?? 1000), to: request)
            }
        }

        func push(_ id: String, _ size: Int64, _ more: String = "") async throws {
            try await fleet.push(
                #"{"url":"\#(origin.url("/\(id)/\(size)"))","id":"\#(id)","path":"\#(id)","connections":1\#(more)}"#)
        }

        func download(_ id: String, _ size: Int64, _ more: String = "") async throws -> JobRecord {
            try await push(id, size, more)
            return try await fleet.end(id)
        }

        /// How often the origin was asked for the bytes of the job's file, and not only whether it has changed.
        func requests(_ id: String) -> Int {
            origin.requests.count { $0.path.hasPrefix("/\(id)/") && $0.headers["if-none-match"] == nil }
        }

        /// A gate that writes a line to `runs`, and then runs the shell's `command`.
        func gate(_ command: String) -> (inout WorkerConfiguration) -> Void {
            let line = #"echo "$GATE_ID" >>\#(notes.file("runs")); "#
            return { configuration in
                configuration.gate = line + command
                configuration.gateRetryAfter = .milliseconds(200)
            }
        }

        /// The ids of the jobs whose files a gate has seen, in their order.
        var runs: [String] {
            String(decoding: notes.contents("runs") ?? [], as: UTF8.self).split(separator: "\n").map(String.init)
        }

        func text(_ name: String) -> String { String(decoding: notes.contents(name) ?? [], as: UTF8.self) }

        func want(_ id: String, _ operation: String) async throws {
            try await fleet.queue.redis.send(Command("HSET", fleet.queue.keys.want, id, operation))
        }

        /// Waits until the queue has had so many ticks.
        func waitForTicks(_ count: Int) async throws {
            var ticks: Set<String> = []
            try await eventually("\(count) ticks", every: .milliseconds(50)) {
                let tick = try await fleet.queue.redis.send(Command("GET", "haul:{default}:tick")).string
                ticks.insert(tick ?? "")
                return ticks.count > count
            }
        }

        /// Whether the process with this number, which a gate wrote to a file, exists.
        func isAlive(_ name: String) -> Bool {
            guard let number = pid_t(text(name).trimmingCharacters(in: .whitespacesAndNewlines)) else { return false }
            // A process that has ended and was not waited for counts as gone.
            let status = FileManager.default.contents(atPath: "/proc/\(number)/stat") ?? Data()
            let words = String(decoding: status, as: UTF8.self)
            return !words.isEmpty && !words.contains(") Z ")
        }
    }

    private static func file(_ size: Int64) -> FileBytes { FileBytes(seed: UInt64(size), count: size) }

    // MARK: Verdicts

    @Test("a file that the gate accepts gets its name, and is the same", arguments: sizes)
    func accepted(_ size: Int64) async throws {
        let bench = try await Bench()
        try await bench.fleet.withWorker("w", bench.gate("exit 0")) {
            let record = try await bench.download("a", size)
            #expect(record.state == .completed && record["file"] == "a", "\(record["message"] ?? "")")
        }
        #expect(bench.runs == ["a"])
        #expect(bench.fleet.root.holds("a", Self.file(size)) && bench.fleet.root.names == ["a"])
    }

    @Test(
        "a refused file leaves nothing, its message is the command's last line, and it is not tried again",
        arguments: sizes)
    func refused(_ size: Int64) async throws {
        let bench = try await Bench()
        let gate = bench.gate(#"echo first; printf '%s: \033[31mEicar\a FOUND\n\n' "$GATE_PATH" >&2; exit 1"#)
        try await bench.fleet.withWorker("w", gate) {
            let record = try await bench.download("a", size)
            #expect(record.state == .failed && record["error"] == "gate_refused" && record["retryable"] == "0")
            #expect(record["message"] == "a: [31mEicar FOUND")
            #expect(record.offsets.isEmpty)
            #expect(bench.fleet.root.names.isEmpty && bench.runs == ["a"])
            // A retry by hand finds nothing to go on with.
            try await bench.fleet.push(
                #"{"url":"\#(bench.origin.url("/a/\(size)"))","id":"a","path":"a","connections":1}"#)
            try await eventually("a second refusal") {
                try await bench.fleet.state("a") == .failed && bench.runs == ["a", "a"]
            }
        }
        #expect(bench.requests("a") == 2 && bench.origin.requests.allSatisfy { $0.headers["range"] == nil })
        #expect(bench.fleet.root.names.isEmpty)
    }

    @Test("a refusal without output gets a message of its own, and a long output is cut") func words() async throws {
        let bench = try await Bench()
        try await bench.fleet.withWorker("w", bench.gate("exit 1")) {
            let record = try await bench.download("a", 1000)
            #expect(record["message"] == "the gate refuses the file, and does not say why")
        }
        let long = bench.gate("head -c 300000 /dev/zero | tr '\\0' x; exit 1")
        try await bench.fleet.withWorker("w", long) {
            let record = try await bench.download("b", 1000)
            let message = record["message"] ?? ""
            #expect(record["error"] == "gate_refused" && message.hasPrefix("xxxx") && message.utf8.count <= 503)
        }
    }

    @Test(
        "a gate that moves or changes the file makes the job fail as io, once its retries are used", arguments: sizes,
        [#"mv "$GATE_PATH" "$GATE_ROOT/../moved""#, #"echo more >>"$GATE_PATH""#])
    func changed(_ size: Int64, _ command: String) async throws {
        let bench = try await Bench()
        try await bench.fleet.withWorker("w", bench.gate(command + "; rm -f \"$GATE_ROOT/../moved\"; exit 0")) {
            let record = try await bench.download("a", size, #","retries":1"#)
            #expect(record.state == .failed && record["error"] == "io", "\(record["message"] ?? "")")
            #expect(record["failures"]?.contains("lost") != true)
        }
        #expect(bench.runs == ["a", "a"])
        #expect(bench.fleet.root.names.filter { !$0.hasPrefix(".haul-store") } == [])
    }

    @Test("after a gate that failed the job is tried again with the file that it has", arguments: sizes)
    func failed(_ size: Int64) async throws {
        let bench = try await Bench()
        let gate = bench.gate(#"[ "$(wc -l <\#(bench.notes.file("runs")))" -ge 2 ] || { echo no scanner; exit 2; }"#)
        try await bench.fleet.withWorker("w", gate) {
            let record = try await bench.download("a", size)
            #expect(record.state == .completed, "\(record["message"] ?? "")")
            #expect(record["failures"]?.contains("the gate ended with status 2: no scanner") == true)
        }
        #expect(bench.runs == ["a", "a"] && bench.requests("a") == 1)
        #expect(bench.fleet.root.holds("a", Self.file(size)) && bench.fleet.root.names == ["a"])
    }

    @Test(
        "a gate that keeps failing fails its job, which a retry goes on with",
        arguments: [
            ("exit 3", "status 3"), ("kill -9 $$", "status 137"), ("no-such-program", "status 127"),
        ])
    func hopeless(_ command: String, _ words: String) async throws {
        let bench = try await Bench()
        try await bench.fleet.withWorker("w", bench.gate(command)) {
            let record = try await bench.download("a", 3_000_000, #","retries":1"#)
            #expect(record.state == .failed && record["error"] == "gate_failed" && record["retryable"] == "1")
            #expect(record["message"]?.contains(words) == true, "\(record["message"] ?? "")")
        }
        #expect(bench.runs == ["a", "a"] && bench.fleet.root.names.allSatisfy { $0.hasPrefix(".haul-") })
        try await bench.fleet.withWorker("other", bench.gate("exit 0")) {
            try await bench.push("a", 3_000_000)
            try await bench.fleet.wait("a", for: .completed)
        }
        #expect(bench.requests("a") == 1 && bench.runs.count == 3)
    }

    @Test("a command that takes too long is killed with all that it has started, and has failed") func timeout()
        async throws
    {
        let bench = try await Bench()
        let gate = bench.gate(
            "trap '' TERM; (sleep 600 & echo $! >\(bench.notes.file("inner")); wait) & echo waiting; wait; sleep 600")
        let change: (inout WorkerConfiguration) -> Void = {
            gate(&$0)
            $0.gateTimeout = .seconds(1)
        }
        try await bench.fleet.withWorker("w", change) {
            let record = try await bench.download("a", 1000, #","retries":0"#)
            #expect(record["error"] == "gate_failed")
            #expect(record["message"] == "the gate took longer than 1 s, which is --gate-timeout: waiting")
        }
        #expect(!bench.text("inner").isEmpty && !bench.isAlive("inner"))
    }

    @Test("what a command leaves in the background ends with it") func background() async throws {
        let bench = try await Bench()
        let gate = bench.gate("sleep 600 & echo $! >\(bench.notes.file("inner"))")
        try await bench.fleet.withWorker("w", gate) {
            let record = try await bench.download("a", 1000)
            #expect(record.state == .completed)
        }
        #expect(!bench.text("inner").isEmpty && !bench.isAlive("inner"))
    }

    @Test("a refusal lets the job try its next mirror") func mirrors() async throws {
        let bench = try await Bench()
        let gate = bench.gate(#"[ "$GATE_BYTES" = 2000 ]"#)
        try await bench.fleet.withWorker("w", gate) {
            let urls = ["/a/3000", "/a/2000"].map { "\"\(bench.origin.url($0))\"" }.joined(separator: ",")
            try await bench.fleet.push(#"{"urls":[\#(urls)],"id":"a","path":"a"}"#)
            #expect(try await bench.fleet.end("a").state == .completed)
        }
        #expect(bench.fleet.root.holds("a", Self.file(2000)) && bench.fleet.root.names == ["a"])
    }

    // MARK: Input and environment

    @Test("the command gets the file and its description, and no secret", arguments: sizes)
    func environment(_ size: Int64) async throws {
        setenv("VARIABLE_OF_A_WORKER", "secret", 1)
        let bench = try await Bench()
        let gate = bench.gate(
            "env >\(bench.notes.file("env")); cat >\(bench.notes.file("bytes")); cp \"$GATE_PATH\" \(bench.notes.file("copy"))"
        )
        let digest = SHA256.digest(Self.file(size).all).map { String(format: "%02x", $0) }.joined()
        try await bench.fleet.withWorker("w", gate) {
            let url = bench.origin.url("/a/\(size)?token=secret").replacing("http://", with: "http://user:secret@")
            try await bench.fleet.push(
                #"{"url":"\#(url)","id":"a","path":"in/b c","headers":{"Authorization":"secret"},"checksum":"sha256:\#(digest)"}"#
            )
            #expect(try await bench.fleet.end("a").state == .completed)
        }
        #expect(bench.notes.holds("bytes", Self.file(size)) && bench.notes.holds("copy", Self.file(size)))
        var variables: [String: String] = [:]
        for line in bench.text("env").split(separator: "\n") {
            let parts = line.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
            variables[parts[0]] = parts[1]
        }
        let root = realpath(bench.fleet.root.path, nil).map { String(cString: $0) } ?? ""
        let path = variables.removeValue(forKey: "GATE_PATH") ?? ""
        #expect(path.hasPrefix("\(root)/in/.haul-"))
        let expected = [
            "GATE_ID": "a", "GATE_QUEUE": "default", "GATE_URL": bench.origin.url("/a/\(size)"),
            "GATE_FILE": "in/b c", "GATE_BYTES": "\(size)", "GATE_CHECKSUM": "sha256:\(digest)", "GATE_ROOT": root,
        ]
        for (name, value) in expected { #expect(variables.removeValue(forKey: name) == value) }
        // The shell adds three of its own.
        let others = Set(variables.keys).subtracting(["PWD", "OLDPWD", "SHLVL", "_"])
        let page = try Pages.text("docs/guides/gate.md").split(separator: "The environment")[1].prefix(400)
        #expect(others.allSatisfy { page.contains("`\($0)`") }, "\(others)")
        #expect(!bench.text("env").contains("secret"))
    }

    // MARK: Its place in a run

    @Test("only so many commands run at once, and the other files wait in their order") func limit() async throws {
        let bench = try await Bench()
        let go = bench.notes.file("go")
        let gate = bench.gate("until [ -e \(go) ]; do sleep 0.05; done")
        let change: (inout WorkerConfiguration) -> Void = {
            gate(&$0)
            $0.gateLimit = 2
        }
        try await bench.fleet.withWorker("w", slots: 8, change) {
            for number in 1...6 { try await bench.push("j\(number)", number % 2 == 0 ? 3_000_000 : 1000) }
            try await eventually("all files to arrive") { bench.fleet.root.names.count == 6 && bench.runs.count == 2 }
            try await bench.waitForTicks(6)
            #expect(bench.runs.count == 2 && bench.fleet.root.names.allSatisfy { $0.hasPrefix(".haul-") })
            _ = FileManager.default.createFile(atPath: go, contents: nil)
            for number in 1...6 { try await bench.fleet.wait("j\(number)", for: .completed) }
        }
        #expect(bench.runs.count == 6)
    }

    @Test("a job that is paused or cancelled while the gate runs, or waits for its turn, ends at once")
    func stopped() async throws {
        let bench = try await Bench()
        let go = bench.notes.file("go")
        let gate = bench.gate(
            "echo $$ >\(bench.notes.file("shell-"))$GATE_ID; until [ -e \(go) ]; do sleep 0.05; done")
        let change: (inout WorkerConfiguration) -> Void = {
            gate(&$0)
            $0.gateLimit = 2
        }
        try await bench.fleet.withWorker("w", slots: 8, change) {
            for id in ["paused", "cancelled"] { try await bench.push(id, 3_000_000) }
            try await eventually("two commands") { bench.runs.count == 2 }
            for id in ["paused-later", "cancelled-later"] { try await bench.push(id, 3_000_000) }
            try await eventually("all files to arrive") { bench.fleet.root.names.count == 4 }
            let begun = ContinuousClock.now
            for id in ["paused-later", "cancelled-later", "paused", "cancelled"] {
                try await bench.want(id, id.hasPrefix("paused") ? "paused" : "cancelled")
            }
            for id in ["paused", "paused-later"] { try await bench.fleet.wait(id, for: .paused) }
            for id in ["cancelled", "cancelled-later"] { try await bench.fleet.wait(id, for: .cancelled) }
            #expect(ContinuousClock.now - begun < .seconds(10))
            #expect(!bench.isAlive("shell-paused") && !bench.isAlive("shell-cancelled"))
            try await eventually("the cancelled files to go") { bench.fleet.root.names.count == 2 }
            _ = FileManager.default.createFile(atPath: go, contents: nil)
            for id in ["paused", "paused-later"] {
                try await bench.want(id, "running")
                try await bench.fleet.wait(id, for: .completed)
                #expect(bench.requests(id) == 1)
            }
        }
        #expect(bench.fleet.root.names == ["paused", "paused-later"])
        #expect(bench.runs.count == 4)
    }

    @Test("a worker that ends during the gate returns the job, and the next worker's gate sees the file") func ended()
        async throws
    {
        let bench = try await Bench()
        try await bench.fleet.withWorker("one", bench.gate("echo $$ >\(bench.notes.file("shell")); sleep 600")) {
            try await bench.push("a", 3_000_000)
            try await eventually("the gate to run") { bench.runs == ["a"] }
        }
        #expect(!bench.isAlive("shell"))
        #expect(try await bench.fleet.state("a") == .queued && bench.fleet.root.names.count == 1)
        try await bench.fleet.withWorker("two", bench.gate("echo infected; exit 1")) {
            try await bench.fleet.wait("a", for: .failed)
        }
        #expect(bench.fleet.root.names.isEmpty && bench.requests("a") == 1 && bench.runs == ["a", "a"])
    }

    @Test("the gate sees a new version of a file, and none that has not changed; a refused version changes nothing")
    func versions() async throws {
        let fleet = try await Fleet()
        let version = Shared(1)
        let notes = TemporaryDirectory()
        let origin = try OriginServer { request in
            OriginReply.file(
                FileBytes(seed: UInt64(version.value), count: 5000), etag: "\"v\(version.value)\"", to: request)
        }
        let gate: (inout WorkerConfiguration) -> Void = {
            $0.gate = "echo seen >>\(notes.file("runs")); [ $(wc -l <\(notes.file("runs"))) -ne 2 ]"
        }
        func push(_ policy: String, _ members: String = "") async throws -> JobRecord {
            let events = try await fleet.queue.job("a")?["seq"]
            try await fleet.push(
                #"{"url":"\#(origin.url("/"))","id":"a","path":"a","if_exists":"\#(policy)"\#(members)}"#)
            try await eventually("the push to be done") {
                let job = try await fleet.queue.job("a")
                return job?["seq"] != events && job?.hasEnded == true
            }
            return try #require(try await fleet.queue.job("a"))
        }
        try await fleet.withWorker("w", gate) {
            let first = try await push("overwrite")
            let second = try await push("reuse")
            #expect(first.state == .completed && second["unchanged"] == "1")
            #expect(notes.contents("runs")?.count == 5)
            version.value = 2
            let third = try await push("overwrite")
            #expect(third["error"] == "gate_refused")
            #expect(fleet.root.holds("a", FileBytes(seed: 1, count: 5000)) && fleet.root.names == ["a"])
            // The refusal has shown that the first version is not fresh any more.
            let fourth = try await push("overwrite", #","fresh_for":3600"#)
            #expect(fourth.state == .completed && fourth["unchanged"] == nil)
        }
        #expect(fleet.root.holds("a", FileBytes(seed: 2, count: 5000)) && fleet.root.names == ["a"])
        #expect(notes.contents("runs")?.count == 15)
    }

    @Test("new settings of the gate hold for the next file, without a restart") func reloaded() async throws {
        let bench = try await Bench()
        let gate = bench.gate("exit 1")
        var configuration: WorkerConfiguration?
        let worker = try bench.fleet.worker("w") {
            gate(&$0)
            configuration = $0
        }
        let running = Task { try await worker.run() }
        #expect(try await bench.download("a", 1000)["error"] == "gate_refused")
        var new = try #require(configuration)
        new.gate = nil
        let (taken, left) = try await worker.apply(new)
        #expect(taken == ["gate"] && left.isEmpty)
        #expect(try await bench.download("b", 1000).state == .completed)
        running.cancel()
        try await running.value
        #expect(bench.runs == ["a"])
    }

    @Test("the metrics count the runs of the gate by their results") func metrics() async throws {
        let bench = try await Bench()
        let worker = try bench.fleet.worker(
            "w", bench.gate(#"case $GATE_ID in a*) ;; b*) exit 1 ;; *) exit 2 ;; esac"#))
        let running = Task { try await worker.run() }
        for id in ["a1", "a2", "b", "c"] { _ = try await bench.download(id, 1000, #","retries":0"#) }
        let text = try #require(await worker.page.respond(to: "/metrics")).text
        for (result, count) in [("accepted", 2), ("refused", 1), ("failed", 1)] {
            let line = #"haul_gate_duration_seconds_count{queue="default",result="\#(result)"} \#(count)"#
            #expect(text.contains(line), "\(text.split(separator: "\n").filter { $0.contains("gate") })")
        }
        running.cancel()
        try await running.value
    }

    // MARK: Examples

    @Test("the page's example with clamdscan refuses a virus, and waits for a scanner that does not run")
    func scanner() async throws {
        let bench = try await Bench()
        let page = try Pages.text("docs/guides/gate.md")
        let command = try #require(page.firstMatch(of: /haul worker --root files --gate '(clamdscan [^']*)'/)).1
        // It behaves as clamdscan does when it gets a stream.
        let stub = """
            #!/bin/sh
            [ "$*" = "--no-summary -" ] || exit 3
            [ -e \(bench.notes.file("clamd")) ] || { echo "ERROR: Could not connect to clamd"; exit 2; }
            if grep -q EICAR; then echo "stream: Eicar-Test-Signature FOUND"; exit 1; fi
            echo "stream: OK"

            """
        try stub.write(toFile: bench.notes.file("clamdscan"), atomically: true, encoding: .utf8)
        chmod(bench.notes.file("clamdscan"), 0o755)
        let origin = try OriginServer { request in
            OriginReply(body: Array((request.path == "/virus" ? "an EICAR test" : "words").utf8))
        }
        let change: (inout WorkerConfiguration) -> Void = {
            $0.gate = "PATH=\(bench.notes.path):$PATH; \(command)"
            $0.gateRetryAfter = .milliseconds(100)
        }
        try await bench.fleet.withWorker("w", change) {
            for id in ["virus", "clean"] {
                try await bench.fleet.push(#"{"url":"\#(origin.url("/\(id)"))","id":"\#(id)","path":"\#(id)"}"#)
                try await eventually("a failed scan") {
                    try await bench.fleet.queue.job(id)?["failures"]?.contains("Could not connect to clamd") == true
                }
            }
            _ = FileManager.default.createFile(atPath: bench.notes.file("clamd"), contents: nil)
            let refused = try await bench.fleet.end("virus")
            #expect(refused["error"] == "gate_refused" && refused["message"] == "stream: Eicar-Test-Signature FOUND")
            #expect(page.contains("`\(refused["message"] ?? "")`"))
            #expect(try await bench.fleet.end("clean").state == .completed)
        }
        #expect(bench.fleet.root.names == ["clean"])
    }

    @Test("the page's example unpacks an archive beside the file, and refuses a damaged one") func unpacker()
        async throws
    {
        let bench = try await Bench()
        let script = bench.notes.file("unpack")
        try #require(try Pages.blocks("sh gate", of: "docs/guides/gate.md").first).write(
            toFile: script, atomically: true, encoding: .utf8)
        chmod(script, 0o755)
        mkdir(bench.notes.file("a"), 0o755)
        try "one".write(toFile: bench.notes.file("a/one"), atomically: true, encoding: .utf8)
        let tar = try ChildProcess("tar", ["-czf", bench.notes.file("a.tar.gz"), "-C", bench.notes.file("a"), "one"])
        #expect(try await tar.wait() == 0)
        let archive = try #require(bench.notes.contents("a.tar.gz"))
        let origin = try OriginServer { request in
            OriginReply(body: request.path.hasPrefix("/damaged") ? Array(archive.dropLast(9)) : archive)
        }
        // One directory that does not belong to a job, and one of a run that was killed before it named its result.
        for (directory, file) in [("taken", "taken/of another"), ("again", "again/one")] {
            mkdir(bench.fleet.root.file(directory), 0o755)
            try "one".write(toFile: bench.fleet.root.file(file), atomically: true, encoding: .utf8)
        }
        try await bench.fleet.withWorker("w", { $0.gate = script }) {
            for (id, path) in [
                ("good", "films/a b.tar.gz"), ("damaged", "films/damaged.tar.gz"), ("other", "films/c.txt"),
                ("nameless", "films/.tar.gz"), ("taken", "taken.tar.gz"), ("again", "again.tar.gz"),
            ] {
                try await bench.fleet.push(#"{"url":"\#(origin.url("/\(id)"))","id":"\#(id)","path":"\#(path)"}"#)
            }
            #expect(try await bench.fleet.end("good").state == .completed)
            #expect(try await bench.fleet.end("other").state == .completed)
            #expect(try await bench.fleet.end("nameless").state == .completed)
            #expect(try await bench.fleet.end("again").state == .completed)
            #expect(try await bench.fleet.end("taken")["message"] == "taken exists with other contents")
            let damaged = try await bench.fleet.end("damaged")
            #expect(damaged["error"] == "gate_refused" && damaged["message"]?.contains("films/damaged.tar.gz") == true)
        }
        let names = try FileManager.default.contentsOfDirectory(atPath: bench.fleet.root.file("films")).sorted()
        #expect(names == [".tar.gz", "a b", "a b.tar.gz", "c.txt"])
        #expect(bench.fleet.root.contents("taken/of another") == Array("one".utf8))
        #expect(bench.fleet.root.contents("films/a b/one") == Array("one".utf8))
    }

    // MARK: Buckets

    @Test(
        "in a bucket the command reads the object from its standard input before it has its name",
        .disabled(if: ObjectServer.installed.isEmpty, "no object store is installed: deploy/test.sh does that"),
        arguments: ObjectServer.installed)
    func bucket(_ kind: ObjectServer.Kind) async throws {
        let server = try await ObjectServer.shared(kind)
        for (name, value) in server.environment { setenv(name, value, 1) }
        let prefix = "gate\(UInt64.random(in: 0...(.max)))"
        let address = try BucketAddress("s3://\(server.bucket)/\(prefix)", endpoint: server.endpoint)
        let bench = try await Bench()
        // The first run of the gate for a file fails, the second one refuses it or accepts it.
        let gate = bench.gate(
            """
            env >\(bench.notes.file("env")); [ -z "$GATE_PATH$GATE_ROOT" ] || exit 4
            case $GATE_ID in early*) exit 0 ;; esac
            cat >\(bench.notes.file("bytes-"))$GATE_ID
            [ "$(grep -cx "$GATE_ID" \(bench.notes.file("runs")))" -ge 2 ] || exit 2
            case $GATE_ID in refused*) echo bad; exit 1 ;; esac
            """)
        let change: (inout WorkerConfiguration) -> Void = {
            gate(&$0)
            ($0.bucket, $0.root, $0.uploadFrom) = (address, "/nonexistent", nil)
        }
        let large: Int64 = 20 << 20
        let digest = SHA256.digest(Self.file(large).all).map { String(format: "%02x", $0) }.joined()
        try await bench.fleet.withWorker("w", change) {
            for (size, more) in [
                (10_000, ""), (3_000_000, ""), (large, ""), (large, #","checksum":"sha256:\#(digest)""#),
            ] as [(Int64, String)] {
                let suffix = "\(size)\(more.isEmpty ? "" : "-checked")"
                let accepted = try await bench.download("accepted-\(suffix)", size, more)
                #expect(accepted.state == .completed, "\(suffix): \(accepted["message"] ?? "")")
                #expect(bench.notes.holds("bytes-accepted-\(suffix)", Self.file(size)), "\(suffix)")
                #expect(try await server.object("\(prefix)/accepted-\(suffix)") == Self.file(size).all, "\(suffix)")
                let refused = try await bench.download("refused-\(suffix)", size, more)
                #expect(refused["error"] == "gate_refused" && refused["message"] == "bad", "\(suffix)")
                #expect(refused.offsets.isEmpty && refused["store_state"] == nil)
                #expect(bench.notes.holds("bytes-refused-\(suffix)", Self.file(size)), "\(suffix)")
                #expect(try await server.object("\(prefix)/refused-\(suffix)") == nil, "\(suffix)")
                // What was uploaded is not fetched again after a failed gate.
                if size == large { #expect(bench.requests("accepted-\(suffix)") == 1, "\(suffix)") }
            }
            // A command that reads nothing does not hold up its object.
            #expect(try await bench.download("early", large).state == .completed)
        }
        let store = ObjectStore(address, options: ObjectStore.Options())
        let left = await store.leftovers(olderThan: -1)
        #expect(left.isEmpty, "\(left.map(\.path))")
    }
}
