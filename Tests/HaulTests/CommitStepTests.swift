import Foundation
import Glibc
import HaulTestSupport
import Testing

/// Workers that are killed, or frozen and resumed, between any two of the calls by which a file gets its name.
@Suite struct CommitStepTests {
    /// The `if_exists` of the job.
    enum Policy: String, CaseIterable { case overwrite, rename, reuse, fail }

    /// The state of the job when its worker is stopped.
    enum Kind: String {
        /// A small file, which Redis does not know.
        case small
        /// A file with a checkpoint, which the next worker continues.
        case continued
        /// The same, but the remote file has changed: the next worker starts over.
        case changed
    }

    private static let first = FileBytes(seed: 21, count: 900_000)
    private static let second = FileBytes(seed: 22, count: 910_000)
    private static let little = (FileBytes(seed: 23, count: 900), FileBytes(seed: 24, count: 1000))
    private static let foreign = Array("foreign".utf8)
    /// More steps than a commit has.
    private static let steps = 9

    private struct Failed: Error { let message: String }

    /// One fleet. The worker of each step has a queue and a directory of its own.
    private struct Bench {
        let server: RedisServer
        let origin: OriginServer
        let root = TemporaryDirectory()
        let mount: LinklessMount?
        let steps: CommitSteps
        let isNew = Shared(false)
        let gate = Latch()
        let policy: Policy
        let kind: Kind
        /// The gates of the workers that are stopped, and of the one that takes over; nil if they have none.
        let gates: (first: String, second: String)?

        init(
            _ policy: Policy, _ kind: Kind, isLinkless: Bool = false, gates: (first: String, second: String)? = nil
        ) async throws {
            (self.policy, self.kind, self.gates) = (policy, kind, gates)
            server = try await RedisServer()
            steps = try await CommitSteps()
            origin = try OriginServer { [isNew, gate] request in
                let isSecond = isNew.value && kind != .continued
                if kind == .small {
                    return .file(
                        isSecond ? CommitStepTests.little.1 : CommitStepTests.little.0,
                        etag: isSecond ? "\"v2\"" : "\"v1\"", to: request)
                }
                var reply = OriginReply.file(
                    isSecond ? CommitStepTests.second : CommitStepTests.first, etag: isSecond ? "\"v2\"" : "\"v1\"",
                    to: request)
                if request.headers["range"] == nil { reply.hold = (500_000, gate) }
                return reply
            }
            mount = isLinkless ? try await LinklessMount(at: root) : nil
        }

        var versions: [[UInt8]] {
            let (old, new) = kind == .small ? CommitStepTests.little : (CommitStepTests.first, CommitStepTests.second)
            return kind == .continued ? [old.all] : [old.all, new.all]
        }

        func path(_ name: String) -> String { mount?.file(name) ?? root.file(name) }

        func start(_ name: String, queues: [Int], _ environment: [String: String] = [:]) throws -> ChildProcess {
            let arguments =
                [
                    "worker", "--root", root.path, "--name", name, "--allow-address", "127.0.0.0/8", "--lease", "2",
                    "--redis", server.url, "--slots", "16", "--connections", "1",
                ] + queues.flatMap { ["--queue", "q\($0)"] }
                + (gates.map { ["--gate", name == "two" ? $0.second : $0.first] } ?? [])
            return try mount?.start("haul", arguments, environment: environment)
                ?? ChildProcess("haul", arguments, environment: environment)
        }

        func push(_ step: Int) async throws {
            let element =
                #"{"id":"j","url":"\#(origin.url("/a"))","path":"\#(step)/a","if_exists":"\#(policy.rawValue)"}"#
            try await server.cli("LPUSH", "haul:{q\(step)}:jobs", element)
        }

        func state(_ step: Int) async throws -> String {
            try await server.cli("HGET", "haul:{q\(step)}:job:j", "state")
        }

        /// Creates the foreign file in the way of the job's file, for policies that need one.
        func prepare(_ step: Int) throws {
            try FileManager.default.createDirectory(atPath: path("\(step)"), withIntermediateDirectories: true)
            guard policy == .overwrite || policy == .rename else { return }
            try Data(CommitStepTests.foreign).write(to: URL(fileURLWithPath: path("\(step)/a")))
        }

        /// The files without the hidden ones.
        func visible(_ step: Int) -> [String: [UInt8]] {
            let names = (try? FileManager.default.contentsOfDirectory(atPath: path("\(step)"))) ?? []
            return Dictionary(
                uniqueKeysWithValues: names.filter { !$0.hasPrefix(".") }.map { name in
                    (name, FileManager.default.contents(atPath: path("\(step)/\(name)")).map { Array($0) } ?? [])
                })
        }

        func hidden(_ step: Int) -> [String] {
            ((try? FileManager.default.contentsOfDirectory(atPath: path("\(step)"))) ?? []).filter { $0.hasPrefix(".") }
        }

        /// Starts a worker for each step. Returns the workers that `signal` has stopped or killed.
        func meet(_ signal: Int32, deniesLinks: Bool = false) async throws -> [(step: Int, worker: ChildProcess)] {
            var workers: [(step: Int, worker: ChildProcess)] = []
            for step in 1...CommitStepTests.steps {
                try prepare(step)
                let environment = steps.environment("\(step)", step: step, signal: signal, deniesLinks: deniesLinks)
                workers.append((step, try start("one-\(step)", queues: [step], environment)))
            }
            for (step, worker) in workers {
                try await eventually("the worker to start", within: .seconds(60), every: .milliseconds(50)) {
                    worker.standardError.contains("working")
                }
                if kind == .small { steps.arm("\(step)") }
                try await push(step)
            }
            if kind != .small {
                for (step, _) in workers {
                    try await eventually("a checkpoint", within: .seconds(60), every: .milliseconds(50)) {
                        try await server.cli("HLEN", "haul:{q\(step)}:offsets:j") != "0"
                    }
                    steps.arm("\(step)")
                }
                gate.open()
            }
            var met: [(step: Int, worker: ChildProcess)] = []
            for (step, worker) in workers {
                try await eventually(
                    "the worker to be stopped, or its job done", within: .seconds(60), every: .milliseconds(20)
                ) {
                    if !worker.isRunning || worker.isStopped {
                        met.append((step, worker))
                        return true
                    }
                    return try await state(step) == "completed" && hidden(step).isEmpty
                }
            }
            isNew.change { $0 = true }
            return met
        }

        /// Starts the worker that takes over all jobs. It is never stopped, and has the same file system.
        func startSecond(_ deniesLinks: Bool) throws -> ChildProcess {
            try start(
                "two", queues: Array(1...CommitStepTests.steps),
                deniesLinks ? steps.environment("never", step: 1, signal: SIGKILL, deniesLinks: true) : [:])
        }

        func wait(_ step: Int) async throws {
            try await eventually("step \(step) to be completed", within: .seconds(60), every: .milliseconds(50)) {
                let state = try await state(step)
                guard state != "failed" else {
                    throw Failed(message: try await server.cli("HGET", "haul:{q\(step)}:job:j", "message"))
                }
                return state == "completed"
            }
        }

        /// Expects one complete file of one version, beside the file that was there before.
        func expectOne(_ step: Int, _ location: SourceLocation = #_sourceLocation) {
            var files = visible(step)
            if policy == .rename {
                #expect(files.removeValue(forKey: "a") == CommitStepTests.foreign, sourceLocation: location)
            }
            #expect(files.count == 1, "step \(step): \(files.keys.sorted())", sourceLocation: location)
            #expect(files.keys.first == (policy == .rename ? "a (1)" : "a"), sourceLocation: location)
            #expect(files.values.allSatisfy(versions.contains), "step \(step)", sourceLocation: location)
        }

        func end(_ workers: [ChildProcess]) async throws {
            for worker in workers { worker.kill(SIGTERM) }
            for worker in workers { _ = try await worker.wait(within: .seconds(30)) }
            try await mount?.end()
        }
    }

    @Test(
        "a worker that is frozen before any step and resumes too late leaves the finished file alone",
        arguments: [
            (Policy.overwrite, Kind.small), (.overwrite, .continued), (.overwrite, .changed), (.rename, .small),
            (.rename, .continued), (.reuse, .small), (.reuse, .changed), (.fail, .small), (.fail, .continued),
        ])
    func frozen(_ policy: Policy, _ kind: Kind) async throws {
        try await expectNoLateWriter(try await Bench(policy, kind))
    }

    @Test(
        "a frozen worker leaves the finished file alone on a file system without hard links",
        arguments: [(Policy.overwrite, Kind.small), (.overwrite, .changed), (.rename, .continued), (.fail, .small)])
    func frozenWithoutLinks(_ policy: Policy, _ kind: Kind) async throws {
        try await expectNoLateWriter(try await Bench(policy, kind), deniesLinks: true)
    }

    private func expectNoLateWriter(_ bench: Bench, deniesLinks: Bool = false) async throws {
        let met = try await bench.meet(SIGSTOP, deniesLinks: deniesLinks)
        #expect(met.count >= 4, "a commit has at least four steps")
        let second = try bench.startSecond(deniesLinks)
        for (step, _) in met { try await bench.wait(step) }
        for (step, _) in met { bench.expectOne(step) }
        let settled = met.map { bench.visible($0.step) }
        for (_, worker) in met { worker.kill(SIGCONT) }
        for (step, _) in met {
            try await eventually(
                "the first worker to notice that it was fenced", within: .seconds(60), every: .milliseconds(50)
            ) {
                try await bench.server.cli("HGET", "haul:{q\(step)}:worker:one-\(step)", "running") == "0"
            }
            try await eventually("hidden files to be removed", every: .milliseconds(50)) { bench.hidden(step).isEmpty }
        }
        for ((step, _), before) in zip(met, settled) {
            #expect(bench.visible(step) == before, "step \(step)")
        }
        try await bench.end([second] + met.map(\.worker))
    }

    /// The calls by which a file gets its name.
    enum Place: String { case links, exclusiveRenames, lockedRenames }

    @Test(
        "a worker that is killed before any step neither loses nor duplicates the file",
        arguments: [
            (Place.links, Policy.overwrite, Kind.small), (.links, .rename, .small), (.links, .reuse, .continued),
            (.links, .fail, .small), (.exclusiveRenames, .overwrite, .continued), (.exclusiveRenames, .rename, .small),
            (.exclusiveRenames, .fail, .changed),
        ])
    func killed(_ place: Place, _ policy: Policy, _ kind: Kind) async throws {
        try await expectNeitherLostNorDoubled(try await Bench(policy, kind), place)
    }

    @Test(
        "a killed worker neither loses nor duplicates a file on FUSE without links and exclusive renames",
        .enabled("needs exfat-fuse and loop devices") { await LinklessMount.isPossible() },
        arguments: [(Policy.overwrite, Kind.small), (.rename, .small), (.reuse, .continued), (.fail, .changed)])
    func killedOnFuse(_ policy: Policy, _ kind: Kind) async throws {
        try await expectNeitherLostNorDoubled(try await Bench(policy, kind, isLinkless: true), .lockedRenames)
    }

    @Test(
        "a worker that is killed before any step has named no file that its gate has not accepted",
        arguments: [
            (Place.links, Kind.small), (.links, .continued), (.exclusiveRenames, .small),
            (.exclusiveRenames, .continued),
        ])
    func killedWithGate(_ place: Place, _ kind: Kind) async throws {
        let notes = TemporaryDirectory()
        let bench = try await Bench(
            .reuse, kind,
            gates: (
                "echo $GATE_QUEUE >>\(notes.file("accepted"))",
                "echo $GATE_QUEUE >>\(notes.file("refused")); echo no; exit 1"
            ))
        let deniesLinks = place == .exclusiveRenames
        let met = try await bench.meet(SIGKILL, deniesLinks: deniesLinks)
        #expect(met.count >= 4, "a commit has at least four steps")
        let second = try bench.startSecond(deniesLinks)
        func has(_ name: String, _ step: Int) -> Bool {
            String(decoding: notes.contents(name) ?? [], as: UTF8.self).split(separator: "\n").contains("q\(step)")
        }
        var (named, refused) = (0, 0)
        for (step, _) in met {
            try await eventually("step \(step) to end", within: .seconds(60), every: .milliseconds(50)) {
                ["completed", "failed"].contains(try await bench.state(step))
            }
            if try await bench.state(step) == "completed" {
                #expect(has("accepted", step) && !has("refused", step), "step \(step)")
                bench.expectOne(step)
                named += 1
            } else {
                // Redis may not know of a file that the first worker has named, so that it is fetched again.
                let isNamed = !bench.visible(step).isEmpty
                #expect(has("refused", step) && (!isNamed || has("accepted", step)), "step \(step)")
                if isNamed {
                    bench.expectOne(step)
                    named += 1
                    continue
                }
                #expect(try await bench.server.cli("HGET", "haul:{q\(step)}:job:j", "error") == "gate_refused")
                refused += 1
            }
            try await eventually("hidden files to be removed", every: .milliseconds(50)) { bench.hidden(step).isEmpty }
        }
        #expect(named > 0 && refused > 0, "\(named) named, \(refused) refused")
        try await bench.end([second])
    }

    private func expectNeitherLostNorDoubled(_ bench: Bench, _ place: Place) async throws {
        let deniesLinks = place == .exclusiveRenames
        let met = try await bench.meet(SIGKILL, deniesLinks: deniesLinks)
        #expect(met.count >= 4, "a commit has at least four steps")
        let second = try bench.startSecond(deniesLinks)
        for step in 1...Self.steps { try await bench.wait(step) }
        for step in 1...Self.steps { bench.expectOne(step) }
        // The job is pushed again. It must recognize its own file, even if the file system has renumbered the inodes.
        if bench.policy == .reuse {
            for (step, _) in met { try await bench.push(step) }
            for (step, _) in met {
                try await eventually("the push to be taken") {
                    try await bench.server.cli("LLEN", "haul:{q\(step)}:jobs") == "0"
                }
                try await bench.wait(step)
                bench.expectOne(step)
            }
        }
        try await bench.end([second])
    }
}
