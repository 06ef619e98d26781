import Foundation
import Glibc
import HaulClient
import HaulTestSupport
import Testing

/// The programs of docs/, taken from the pages and run against a real worker.
@Suite struct ProducerTests {
    /// A program of the page: its language in the fence, its file, and its command.
    enum Program: String, CaseIterable, CustomTestStringConvertible {
        case bash, python, javascript, go, swift

        var testDescription: String { rawValue }

        var file: String {
            switch self {
            case .bash: "producer.sh"
            case .python: "producer.py"
            case .javascript: "producer.js"
            case .go: "producer.go"
            case .swift: "producer-example"
            }
        }

        /// The command that runs `file`. The interpreters are Debian's, since the clients for Redis are Debian's
        /// packages.
        func command(_ file: String) -> [String] {
            switch self {
            case .bash: ["bash", file]
            case .python: ["/usr/bin/python3", file]
            case .javascript: ["node", file]
            case .go, .swift: [file]
            }
        }
    }

    private static func source(_ program: Program, _ length: String = "program") throws -> String {
        let blocks = try Pages.blocks("\(program.rawValue) \(length)")
        try #require(blocks.count == 1, "\(program) \(length)")
        return blocks[0] + "\n"
    }

    @Test("the Swift program of the page is the one that is built") func swift() throws {
        let built = Pages.repository.appending(path: "Tests/examples/producer/Producer.swift")
        #expect(try String(contentsOf: built, encoding: .utf8) == Self.source(.swift))
    }

    @Test(
        "a program pushes, is killed, continues, follows a job, and reports every end",
        .timeLimit(.minutes(3)), arguments: Program.allCases)
    func whole(_ program: Program) async throws {
        let bench = try await ProducerBench(program, try Self.source(program))
        let orders = bench.root.file("orders.json")
        let list = [
            ("a", bench.origin.url("/good"), false), ("b", bench.origin.url("/missing"), false),
            ("c", bench.origin.url("/good"), true), ("d", bench.origin.url("/held"), false), ("e", "ftp://h/", false),
            ("f/7", bench.origin.url("/good"), false),
        ]
        let lines = list.enumerated().map { index, order in
            let at = 1_763_712_000_000 + index
            return #"{"id":"\#(order.0)","url":"\#(order.1)","at":\#(at),"urgent":\#(order.2)}"#
        }
        try Data("[\(lines.joined(separator: ",\n "))]".utf8).write(to: URL(filePath: orders))
        let first = try bench.start("run", orders)
        // A client that validates does not push the two invalid jobs.
        let count = program == .swift ? "4" : "6"
        try await eventually("\(count) elements", within: .seconds(30)) {
            try await bench.server.cli("LLEN", "haul:{default}:jobs") == count
        }
        // The urgent job is at the front.
        #expect(try await bench.server.cli("LINDEX", "haul:{default}:jobs", "-1").contains(#""c""#))
        try await eventually("a warning that no worker serves the queue", within: .seconds(30)) {
            (first.standardError + first.standardOutput).contains("no worker serves the queue")
        }
        first.kill(SIGKILL)
        _ = try await first.wait()
        let worker = try bench.worker()
        // b ends while no program waits for it.
        try await bench.wait("b", for: "failed")
        try await bench.wait("d", for: "running")
        let following = try bench.start("follow", "d")
        let second = try bench.start("run", orders)
        try await eventually("all ends except one", within: .seconds(40)) {
            second.standardOutput.split(separator: "\n").count == 5
        }
        try await eventually("progress to be followed", within: .seconds(30)) {
            following.standardOutput.contains("d ")
        }
        let cancel = try bench.start("cancel", "d")
        #expect(try await cancel.wait() == 0, "\(cancel.standardError)")
        #expect(try await second.wait(within: .seconds(40)) == 0, "\(second.standardError)")
        let reported = Set(second.standardOutput.split(separator: "\n").map(String.init))
        #expect(reported.count == 6)
        #expect(reported.contains("a: use orders/good") || reported.contains("a: use orders/good (1)"), "\(reported)")
        #expect(reported.contains { $0.hasPrefix("e: tell a developer (url: must be") }, "\(reported)")
        #expect(reported.contains { $0.hasPrefix("f/7: tell a developer (id: must be") }, "\(reported)")
        #expect(reported.contains { $0.hasPrefix("b: gone (http_404: the server has no such file") }, "\(reported)")
        #expect(reported.contains("d: cancelled"), "\(reported)")
        #expect(try await following.wait(within: .seconds(20)) == 0, "\(following.standardError)")
        #expect(following.standardOutput.contains("cancelled"), "\(following.standardOutput)")
        // The end of a job that has already ended is reported at once.
        let late = try bench.start("follow", "d")
        #expect(try await late.wait(within: .seconds(20)) == 0, "\(late.standardError)")
        #expect(late.standardOutput.contains("cancelled"), "\(late.standardOutput)")
        // No job ran twice: the repeated pushes were duplicates.
        #expect(bench.origin.requests.filter { $0.path == "/missing" }.count == 1)
        let odd = try bench.start("nonsense", "x")
        #expect(try await odd.wait() != 0)
        worker.kill(SIGTERM)
        _ = try await worker.wait(within: .seconds(30))
    }

    @Test(
        "the program of a first start fetches a file, which has the bytes of the server",
        .timeLimit(.minutes(3)), arguments: Program.allCases)
    func first(_ program: Program) async throws {
        let bench = try await ProducerBench(program, try Self.source(program, "first"))
        let worker = try bench.worker()
        if program == .swift {
            let own = try String(contentsOf: URL(filePath: #filePath), encoding: .utf8)
            #expect(own.contains(try Self.source(.swift, "first")))
            let queue = try HaulQueue(redis: bench.server.url)
            try await fetchFirst(bench.origin.url("/good"), on: queue)
            await queue.close()
        } else {
            let run = try bench.start(bench.origin.url("/good"))
            #expect(try await run.wait(within: .seconds(60)) == 0, "\(run.standardError)")
            #expect(run.standardOutput == "completed good\n")
        }
        #expect(bench.root.contents("good") == ProducerBench.bytes.bytes(0..<ProducerBench.bytes.count))
        worker.kill(SIGTERM)
        _ = try await worker.wait(within: .seconds(30))
    }

    @Test(
        "a dispatcher hands each of many results to the caller that waits for it",
        .timeLimit(.minutes(3)), arguments: [Program.python, .javascript])
    func dispatcher(_ program: Program) async throws {
        let bench = try await ProducerBench(program, try Self.source(program, "dispatcher"))
        let worker = try bench.worker()
        let run = try bench.start(bench.origin.url("/orders"), "100")
        #expect(try await run.wait(within: .seconds(90)) == 0, "\(run.standardError)")
        #expect(run.standardOutput == "100 completed\n")
        worker.kill(SIGTERM)
        _ = try await worker.wait(within: .seconds(30))
    }

    @Test(
        "a short program sends a request and an upload, and prints the server's responses",
        .timeLimit(.minutes(3)), arguments: Program.allCases)
    func short(_ program: Program) async throws {
        let bench = try await ProducerBench(program, try Self.source(program, "short"))
        try Data("the film".utf8).write(to: URL(filePath: bench.root.file("film.bin")))
        let worker = try bench.worker()
        let url = bench.origin.url("/orders")
        let reported: String
        if program == .swift {
            let own = try String(contentsOf: URL(filePath: #filePath), encoding: .utf8)
            #expect(own.contains(try Self.source(.swift, "short")))
            let queue = try HaulQueue(redis: bench.server.url)
            try await orderAndSend("film.bin", to: url, on: queue)
            reported = try await queue.status(of: ["order-7", "send-7"]).map {
                "\($0.id): \($0.state) \($0.response?.status ?? 0) "
                    + "\(String(decoding: $0.response?.body ?? [], as: UTF8.self))\n"
            }.joined()
            await queue.close()
        } else {
            let run = try bench.start(url, "film.bin")
            #expect(try await run.wait(within: .seconds(60)) == 0, "\(run.standardError)")
            // Python writes a blank there.
            reported = run.standardOutput.replacing(#""film": 7"#, with: #""film":7"#)
        }
        #expect(reported == "order-7: completed 201 got {\"film\":7}\nsend-7: completed 200 got the film\n")
        worker.kill(SIGTERM)
        _ = try await worker.wait(within: .seconds(30))
    }

    @Test(
        "a consumer of the stream gets each event once, also those that came while it did not run",
        .timeLimit(.minutes(3)), arguments: [Program.python, .javascript])
    func events(_ program: Program) async throws {
        let bench = try await ProducerBench(program, try Self.source(program, "events"))
        try await bench.server.cli("HSET", "haul:{default}:settings", "event_stream", "1000")
        let worker = try bench.worker()
        func run(_ id: String) async throws {
            try await bench.server.cli(
                "LPUSH", "haul:{default}:jobs", #"{"url":"\#(bench.origin.url("/missing"))","id":"\#(id)"}"#)
            try await bench.wait(id, for: "failed")
        }
        try await run("a")
        for (number, id) in ["a", "b"].enumerated() {
            let consumer = try bench.start()
            try await eventually("the event of \(id): \(consumer.standardError)", within: .seconds(30)) {
                consumer.standardOutput.contains("failed \(id)\n")
            }
            // It waits for more.
            try await run("c\(number)")
            try await eventually("the next event", within: .seconds(30)) {
                consumer.standardOutput.contains("failed c\(number)\n")
            }
            if id == "b" { #expect(!consumer.standardOutput.contains("failed a\n")) }
            try await eventually("the acknowledgement", within: .seconds(30)) {
                try await bench.server.cli("XPENDING", "haul:{default}:log", "billing").hasPrefix("0")
            }
            consumer.kill(SIGKILL)
            _ = try await consumer.wait()
            if id == "a" { try await run("b") }
        }
        worker.kill(SIGTERM)
        _ = try await worker.wait(within: .seconds(30))
    }
}

func fetchFirst(_ url: String, on queue: HaulQueue) async throws {
    let result = try await queue.push(Job(url, id: "first")).result(timeout: .seconds(60)).get()
    print("\(result.state) \(result.file ?? "")")
}

func orderAndSend(_ file: String, to url: String, on queue: HaulQueue) async throws {
    var order = Job.request("POST", url, id: "order-7")
    order.request.json = #"{"film":7}"#
    for job in [order, Job.upload(file, to: url, id: "send-7")] {
        let result = try await queue.push(job).result(timeout: .seconds(60))
        let body = String(decoding: result.response?.body ?? [], as: UTF8.self)
        print("\(result.id): \(result.state) \(result.response?.status ?? 0) \(body)")
    }
}

/// A Redis with a port, since some clients do not support unix sockets, an origin, and one program.
private struct ProducerBench {
    let server: RedisServer
    let root = TemporaryDirectory()
    let origin: OriginServer
    static let bytes = FileBytes(seed: 61, count: 400_000)
    private let gate = Latch()
    private let url: String
    private let command: [String]

    init(_ program: ProducerTests.Program, _ source: String) async throws {
        let port = FreePort.next()
        server = try await RedisServer(["--port", String(port), "--bind", "127.0.0.1"])
        url = "redis://127.0.0.1:\(port)"
        origin = try OriginServer { [gate] request in
            if request.path == "/missing" { return OriginReply(404) }
            if request.path.hasPrefix("/orders") {
                let body = request.body.bytes
                return OriginReply(request.method == "POST" ? 201 : 200, body: Array("got ".utf8) + body)
            }
            var reply = OriginReply.file(Self.bytes, to: request)
            if request.path == "/held" {
                reply.pace = 20_000
                reply.hold = (100_000, gate)
            }
            return reply
        }
        if program == .swift {
            command = [try #require(ChildProcess.path(of: program.file))]
            return
        }
        let file = root.file(program.file)
        try Data(source.utf8).write(to: URL(filePath: file))
        guard program == .go else {
            command = program.command(file)
            return
        }
        command = [root.file("producer")]
        // Debian's Go packages are found by their path. Nothing is downloaded.
        let environment = [
            "GO111MODULE": "off", "GOPATH": "/usr/share/gocode", "GOCACHE": root.file("cache"), "GOFLAGS": "",
            "HOME": root.path, "GOTOOLCHAIN": "local",
        ]
        for arguments in [["vet", file], ["build", "-o", command[0], file]] {
            let go = try ChildProcess("go", arguments, environment: environment)
            let status = try await go.wait(within: .seconds(150))
            try #require(status == 0, "\(go.standardError)")
        }
    }

    func start(_ arguments: String...) throws -> ChildProcess {
        try ChildProcess(
            command[0], Array(command.dropFirst()) + arguments,
            environment: ["HAUL_REDIS": url, "NODE_PATH": "/usr/share/nodejs"])
    }

    func worker() throws -> ChildProcess {
        try ChildProcess(
            "haul",
            [
                "worker", "--root", root.file("."), "--upload-from", root.file("."), "--name", "w",
                "--allow-address", "127.0.0.0/8", "--lease", "2",
                "--redis", url,
            ])
    }

    func wait(_ id: String, for state: String) async throws {
        try await eventually("\(id) to be \(state)", within: .seconds(30), every: .milliseconds(50)) {
            try await server.cli("HGET", "haul:{default}:job:\(id)", "state") == state
        }
    }
}
