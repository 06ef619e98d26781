import Foundation
import HaulTestSupport
import Testing

/// Never a wrong object: three ways to send a file × disturbances × places of the file. The workers are real processes.
/// One case of each way runs at a time, for a directory and for a bucket.
@Suite("Matrix of uploads", .timeLimit(.minutes(10)))
struct UploadMatrixTests {
    enum Disturbance: String, CaseIterable { case pause, kill, cut, restart, change }

    @Test("files of a directory are received complete and right, or not at all", arguments: Disturbance.allCases)
    func directory(_ disturbance: Disturbance) async throws {
        try await UploadMatrixRun(.directory, disturbance).run()
    }

    @Test(
        "objects of a bucket are received complete and right, or not at all",
        arguments: ObjectServer.installed, Disturbance.allCases)
    func bucket(_ kind: ObjectServer.Kind, _ disturbance: Disturbance) async throws {
        try await UploadMatrixRun(.bucket(try await .shared(kind)), disturbance).run()
    }
}

/// One disturbance of three uploads, from the first byte to the result.
struct UploadMatrixRun {
    enum Place {
        case directory
        case bucket(ObjectServer)
    }

    /// How a file is sent. The name is also the job's id, the file's name and the path at the origin.
    enum Way: String, CaseIterable { case put, form, tus }

    /// More than the sockets between worker and origin hold.
    private static let size = 32 << 20
    private static let held = 2 << 20
    private static let old = FileBytes(seed: 5, count: Int64(size)).all
    private static let new = FileBytes(seed: 6, count: Int64(size)).all
    private static let digests = (old: SHA256.digest(old), new: SHA256.digest(new))

    private let fleet: ProcessFleet
    private let origin: UploadOrigin
    private let place: Place
    private let prefix = "u\(UInt64.random(in: 0...(.max)))"
    private let disturbance: UploadMatrixTests.Disturbance

    init(_ place: Place, _ disturbance: UploadMatrixTests.Disturbance) async throws {
        (self.place, self.disturbance) = (place, disturbance)
        fleet = try await ProcessFleet()
        origin = try UploadOrigin(held: Int64(Self.held))
    }

    func run() async throws {
        try await start()
        for way in Way.allCases { try await place(way, Self.old) }
        var worker = try worker("first")
        for way in Way.allCases { try await push(way) }
        for way in Way.allCases {
            try await eventually("\(way): the first bytes", within: .seconds(40)) {
                origin.received("/\(way)") == Self.held
            }
        }
        // Another worker needs this to continue.
        try await eventually("the upload's URL in Redis", every: .milliseconds(50)) {
            try await fleet.field("store_state", of: "tus").contains("/tus/")
        }
        worker = try await disturb(worker)
        if disturbance == .change { try await expectChanged() } else { try await expectDone() }
        origin.stop()
        try await fleet.end(worker)
    }

    // MARK: The disturbances

    /// Causes the disturbance. Returns the worker that continues.
    private func disturb(_ worker: ChildProcess) async throws -> ChildProcess {
        defer { origin.release() }
        switch disturbance {
        case .pause:
            try await wantAll("paused")
            for way in Way.allCases { try await fleet.wait(way.rawValue, for: "paused") }
            try await fleet.end(worker)
            let next = try self.worker("second")
            try await wantAll("running")
            return next
        case .kill:
            worker.kill(SIGKILL)
            _ = try await worker.wait()
            return try self.worker("second")
        case .cut: origin.cutConnections()
        case .restart:
            origin.stop()
            origin.release()
            try await start()
        case .change: for way in Way.allCases { try await place(way, Self.new) }
        }
        return worker
    }

    /// An earlier listener may still hold the port for a short time.
    private func start() async throws { try await eventually("the origin's port") { (try? origin.start()) != nil } }

    private func wantAll(_ state: String) async throws {
        for way in Way.allCases { try await fleet.server.cli("HSET", "haul:{default}:want", way.rawValue, state) }
    }

    // MARK: The verdicts

    private func expectDone() async throws {
        try await expectEnd(.form, "failed", "outcome_unknown")
        #expect(origin.bodies("/form") == 1, "a form was sent again without permission")
        try await fleet.server.cli("HSET", "haul:{default}:want", "form", "running")
        for way in Way.allCases { try await expectEnd(way, "completed", "") }
        for way in Way.allCases { expectObjects(way, Self.digests.old) }
        // Bytes that a tus server has are not sent again.
        #expect(origin.received("/tus") == Self.size)
        #expect(origin.bodies("/put") == 2 && origin.bodies("/form") == 2 && origin.bodies("/tus") == 2)
        let twice = Way.allCases.map { "\($0) \(max(0, origin.received("/\($0)") - Self.size))" }
        print("matrix of uploads, \(disturbance): bytes received twice: \(twice.joined(separator: ", "))")
    }

    private func expectChanged() async throws {
        for way in Way.allCases { try await expectEnd(way, "failed", "source_changed") }
        for way in Way.allCases { #expect(origin.objects("/\(way)").isEmpty, "\(way)") }
        #expect(origin.unfinished == 0, "an abandoned upload was left")
        for way in Way.allCases { try await push(way) }
        for way in Way.allCases { try await expectEnd(way, "completed", "") }
        for way in Way.allCases { expectObjects(way, Self.digests.new) }
    }

    private func expectObjects(_ way: Way, _ digest: [UInt8]) {
        #expect(origin.objects("/\(way)") == [digest], "\(way)")
    }

    private func expectEnd(_ way: Way, _ state: String, _ error: String) async throws {
        try await fleet.wait(way.rawValue, for: state)
        let code = try await fleet.field("error", of: way.rawValue)
        let message = try await fleet.field("message", of: way.rawValue)
        #expect(state == "completed" || code == error, "\(way): \(code) \(message)")
    }

    // MARK: Jobs, files, workers

    private func push(_ way: Way) async throws {
        let more =
            switch way {
            case .put: #""file":"put""#
            case .form: #""files":[{"file":"form"}],"form":{"title":"t"}"#
            case .tus: #""file":"tus","protocol":"tus""#
            }
        let at = Int64(Date().timeIntervalSince1970 * 1000)
        try await fleet.server.cli(
            "LPUSH", "haul:{default}:jobs",
            #"{"kind":"upload","id":"\#(way)","url":"\#(origin.url("/\(way)"))","at":\#(at),"retries":20,\#(more)}"#)
    }

    private func place(_ way: Way, _ bytes: [UInt8]) async throws {
        let file = fleet.root.file(".new")
        try Data(bytes).write(to: URL(fileURLWithPath: file))
        guard case .bucket(let server) = place else {
            rename(file, fleet.root.file(way.rawValue))
            return
        }
        let curl = try ChildProcess(
            "curl",
            [
                "-sSf", "--aws-sigv4", "aws:amz:us-east-1:s3", "-u", "testkey:testsecret", "-H",
                "x-amz-content-sha256: UNSIGNED-PAYLOAD", "-T", file,
                "\(server.endpoint)/\(server.bucket)/\(prefix)/\(way)",
            ])
        let status = try await curl.wait()
        #expect(status == 0, "\(curl.standardError)")
    }

    private func worker(_ name: String) throws -> ChildProcess {
        var arguments = fleet.arguments(name)
        guard case .bucket(let server) = place else { return try ChildProcess("haul", arguments) }
        let root = arguments.firstIndex(of: "--root")!
        let address = "s3://\(server.bucket)/\(prefix)"
        arguments.replaceSubrange(
            root...root + 3,
            with: ["--store", address, "--upload-from", address, "--s3-endpoint", server.endpoint])
        return try ChildProcess("haul", arguments, environment: server.environment)
    }
}
