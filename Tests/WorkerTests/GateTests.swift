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
    // MARK: Verdicts

    @Test("a file that the gate accepts gets its name, and is the same", arguments: GateBench.sizes)
    func accepted(_ size: Int64) async throws {
        let bench = try await GateBench()
        try await bench.fleet.withWorker("w", bench.gate("exit 0")) {
            let record = try await bench.download("a", size)
            #expect(record.state == .completed && record["file"] == "a", "\(record["message"] ?? "")")
        }
        #expect(bench.runs == ["a"])
        #expect(bench.fleet.root.holds("a", GateBench.file(size)) && bench.fleet.root.names == ["a"])
    }

    @Test(
        "a refused file leaves nothing, its message is the command's last line, and it is not tried again",
        arguments: GateBench.sizes)
    func refused(_ size: Int64) async throws {
        let bench = try await GateBench()
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
        let bench = try await GateBench()
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
        "a gate that moves or changes the file makes the job fail as io, once its retries are used",
        arguments: GateBench.sizes,
        [
            #"mv "$GATE_PATH" "$GATE_ROOT/../moved""#, #"echo more >>"$GATE_PATH""#,
            #"echo other | dd of="$GATE_PATH" conv=notrunc 2>&1"#,
            // Copies the time of the last write, too.
            #"cp -p "$GATE_PATH" "$GATE_ROOT/../copy"; echo other | dd of="$GATE_ROOT/../copy" conv=notrunc 2>&1; touch -r "$GATE_PATH" "$GATE_ROOT/../copy"; cp -p "$GATE_ROOT/../copy" "$GATE_PATH"; chmod 600 "$GATE_PATH"; rm "$GATE_ROOT/../copy""#,
        ])
    func changed(_ size: Int64, _ command: String) async throws {
        let bench = try await GateBench()
        try await bench.fleet.withWorker("w", bench.gate(command + "; rm -f \"$GATE_ROOT/../moved\"; exit 0")) {
            let digest = GateBench.file(size).sha256
            let record = try await bench.download("a", size, #","retries":1,"checksum":"sha256:\#(digest)""#)
            #expect(record.state == .failed && record["error"] == "io", "\(record["message"] ?? "")")
            #expect(record["failures"]?.contains("lost") != true)
        }
        #expect(bench.runs == ["a", "a"])
        #expect(bench.fleet.root.names.filter { !$0.hasPrefix(".haul-store") } == [])
    }

    @Test("a gate may set attributes of the file or link it") func attributes() async throws {
        let bench = try await GateBench()
        try await bench.fleet.withWorker(
            "w", bench.gate(#"chmod 600 "$GATE_PATH" && ln "$GATE_PATH" "$GATE_ROOT/linked""#)
        ) {
            let digest = GateBench.file(10_000).sha256
            let record = try await bench.download("a", 10_000, #","checksum":"sha256:\#(digest)""#)
            #expect(record.state == .completed)
        }
        #expect(bench.fleet.root.names == ["a", "linked"])
    }

    @Test("after a gate that failed the job is tried again with the file that it has", arguments: GateBench.sizes)
    func failed(_ size: Int64) async throws {
        let bench = try await GateBench()
        let gate = bench.gate(#"[ "$(wc -l <\#(bench.notes.file("runs")))" -ge 2 ] || { echo no scanner; exit 2; }"#)
        try await bench.fleet.withWorker("w", gate) {
            let record = try await bench.download("a", size)
            #expect(record.state == .completed, "\(record["message"] ?? "")")
            #expect(record["failures"]?.contains("the gate ended with status 2: no scanner") == true)
        }
        #expect(bench.runs == ["a", "a"] && bench.requests("a") == 1)
        #expect(bench.fleet.root.holds("a", GateBench.file(size)) && bench.fleet.root.names == ["a"])
    }

    @Test(
        "a gate that keeps failing fails its job, which a retry goes on with",
        arguments: [
            ("exit 3", "status 3"), ("kill -9 $$", "status 137"), ("no-such-program", "status 127"),
        ])
    func hopeless(_ command: String, _ words: String) async throws {
        let bench = try await GateBench()
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
        let bench = try await GateBench()
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
        let bench = try await GateBench()
        let gate = bench.gate("sleep 600 & echo $! >\(bench.notes.file("inner"))")
        try await bench.fleet.withWorker("w", gate) {
            let record = try await bench.download("a", 1000)
            #expect(record.state == .completed)
        }
        #expect(!bench.text("inner").isEmpty && !bench.isAlive("inner"))
    }

    @Test("a refusal lets the job try its next mirror") func mirrors() async throws {
        let bench = try await GateBench()
        let gate = bench.gate(#"[ "$GATE_BYTES" = 2000 ]"#)
        try await bench.fleet.withWorker("w", gate) {
            let urls = ["/a/3000", "/a/2000"].map { "\"\(bench.origin.url($0))\"" }.joined(separator: ",")
            try await bench.fleet.push(#"{"urls":[\#(urls)],"id":"a","path":"a"}"#)
            #expect(try await bench.fleet.end("a").state == .completed)
        }
        #expect(bench.fleet.root.holds("a", GateBench.file(2000)) && bench.fleet.root.names == ["a"])
    }

    // MARK: Input and environment

    @Test("the command gets the file and its description, and no secret", arguments: GateBench.sizes)
    func environment(_ size: Int64) async throws {
        setenv("VARIABLE_OF_A_WORKER", "secret", 1)
        let bench = try await GateBench()
        let gate = bench.gate(
            "env >\(bench.notes.file("env")); cat >\(bench.notes.file("bytes")); cp \"$GATE_PATH\" \(bench.notes.file("copy"))"
        )
        let digest = SHA256.digest(GateBench.file(size).all).map { String(format: "%02x", $0) }.joined()
        try await bench.fleet.withWorker("w", gate) {
            let url = bench.origin.url("/a/\(size)?token=secret").replacing("http://", with: "http://user:secret@")
            try await bench.fleet.push(
                #"{"url":"\#(url)","id":"a","path":"in/b c","headers":{"Authorization":"secret"},"checksum":"sha256:\#(digest)"}"#
            )
            #expect(try await bench.fleet.end("a").state == .completed)
        }
        #expect(bench.notes.holds("bytes", GateBench.file(size)) && bench.notes.holds("copy", GateBench.file(size)))
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
            "GATE_FINAL_URL": bench.origin.url("/a/\(size)"), "GATE_FILE": "in/b c", "GATE_BYTES": "\(size)",
            "GATE_CHECKSUM": "sha256:\(digest)", "GATE_ROOT": root,
        ]
        for (name, value) in expected { #expect(variables.removeValue(forKey: name) == value) }
        // The shell adds three of its own.
        let others = Set(variables.keys).subtracting(["PWD", "OLDPWD", "SHLVL", "_"])
        let page = try Pages.text("docs/guides/gate.md").split(separator: "The environment")[1].prefix(400)
        #expect(others.allSatisfy { page.contains("`\($0)`") }, "\(others)")
        #expect(!bench.text("env").contains("secret"))
    }

    @Test("the command learns to which URL a redirect has led, in a later run only if that has no query")
    func redirected() async throws {
        let bench = try await GateBench()
        let target = try OriginServer { .file(GateBench.file(10_000), to: $0) }
        let front = try OriginServer { request in
            let query = request.path.hasPrefix("/signed") ? "?sig=secret" : ""
            return OriginReply(302, headers: [("Location", target.url("/small.bin" + query))])
        }
        let gate = bench.gate(
            "echo \"$GATE_URL $GATE_FINAL_URL\" >>\(bench.notes.file("urls-"))$GATE_ID; [ $(wc -l <\(bench.notes.file("urls-"))$GATE_ID) -gt 1 ] || exit 2"
        )
        try await bench.fleet.withWorker("w", gate) {
            for id in ["plain", "signed"] {
                try await bench.fleet.push(#"{"url":"\#(front.url("/\(id)"))","id":"\#(id)","path":"\#(id)"}"#)
                #expect(try await bench.fleet.end(id).state == .completed)
            }
        }
        for (id, later) in [("plain", target.url("/small.bin")), ("signed", "")] {
            let first = "\(front.url("/\(id)")) \(target.url("/small.bin"))"
            #expect(bench.text("urls-\(id)") == "\(first)\n\(front.url("/\(id)")) \(later)\n", "\(id)")
        }
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
        let bench = try await GateBench()
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
        let digest = SHA256.digest(GateBench.file(large).all).map { String(format: "%02x", $0) }.joined()
        try await bench.fleet.withWorker("w", change) {
            for (size, more) in [
                (10_000, ""), (3_000_000, ""), (large, ""), (large, #","checksum":"sha256:\#(digest)""#),
            ] as [(Int64, String)] {
                let suffix = "\(size)\(more.isEmpty ? "" : "-checked")"
                let accepted = try await bench.download("accepted-\(suffix)", size, more)
                #expect(accepted.state == .completed, "\(suffix): \(accepted["message"] ?? "")")
                #expect(bench.notes.holds("bytes-accepted-\(suffix)", GateBench.file(size)), "\(suffix)")
                #expect(
                    try await server.object("\(prefix)/accepted-\(suffix)") == GateBench.file(size).all, "\(suffix)")
                let refused = try await bench.download("refused-\(suffix)", size, more)
                #expect(refused["error"] == "gate_refused" && refused["message"] == "bad", "\(suffix)")
                #expect(refused.offsets.isEmpty && refused["store_state"] == nil)
                #expect(bench.notes.holds("bytes-refused-\(suffix)", GateBench.file(size)), "\(suffix)")
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
