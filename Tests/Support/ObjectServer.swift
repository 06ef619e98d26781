import Foundation
import Glibc
import Testing

/// A real object store on loopback: Ceph's radosgw, SeaweedFS or MiniStack, started by `object-server.sh`. It ends with its last
/// reference.
package final class ObjectServer: Sendable {
    package enum Kind: String, Sendable, CaseIterable, CustomTestStringConvertible {
        case rgw, weed, mini

        package var testDescription: String {
            switch self {
            case .rgw: "radosgw"
            case .weed: "SeaweedFS"
            case .mini: "MiniStack"
            }
        }
    }

    /// The servers of this machine that store what they have acknowledged. deploy/test.sh installs both.
    package static let installed: [Kind] = dialects.filter { $0 != .mini }

    /// The same, and one that stores everything in memory.
    package static let dialects: [Kind] = Kind.allCases.filter { kind in
        switch kind {
        case .mini: access(ministack, X_OK) == 0
        case .rgw: ["radosgw", "ceph-mon", "ceph-osd"].allSatisfy { ChildProcess.path(of: $0) != nil }
        case .weed: weed != nil
        }
    }

    /// The tests of one process share one server of each kind. Each test uses a key prefix of its own.
    package static func shared(_ kind: Kind) async throws -> ObjectServer {
        switch kind {
        case .rgw: try await sharedRGW.value
        case .weed: try await sharedWeed.value
        case .mini: try await sharedMini.value
        }
    }

    private static let sharedRGW = Task { try await ObjectServer(.rgw) }
    private static let sharedWeed = Task { try await ObjectServer(.weed) }
    private static let sharedMini = Task { try await ObjectServer(.mini) }

    private static let package = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appendingPathComponent(
        "../..")

    private static let ministack =
        ProcessInfo.processInfo.environment["HAUL_MINISTACK"]
        ?? package.appendingPathComponent(".build/object-servers/bin/ministack").path

    private static let weed: String? = {
        let own = package.appendingPathComponent(".build/object-servers/bin/weed").path
        return ProcessInfo.processInfo.environment["HAUL_WEED"] ?? ChildProcess.path(of: "weed")
            ?? (access(own, X_OK) == 0 ? own : nil)
    }()

    /// `http://127.0.0.1:PORT`
    package let endpoint: String
    package let bucket = "test"
    /// Credentials with all permissions.
    package let environment = ["AWS_ACCESS_KEY_ID": "testkey", "AWS_SECRET_ACCESS_KEY": "testsecret"]
    private let directory = TemporaryDirectory()
    private let process: ChildProcess

    package init(_ kind: Kind) async throws {
        let script = Self.package.appendingPathComponent("Tests/Support/object-server.sh").path
        let process = try ChildProcess(
            "bash", [script, kind.rawValue, directory.path],
            environment: ["HAUL_WEED": Self.weed ?? "", "HAUL_MINISTACK": Self.ministack])
        self.process = process
        var endpoint: String?
        try await eventually("the object store to be ready", within: .seconds(90), every: .milliseconds(50)) {
            guard process.isRunning else { throw ChildProcess.Missing(description: process.standardError) }
            let line = process.standardOutput.split(whereSeparator: \.isNewline).first { $0.hasPrefix("ready ") }
            endpoint = line.map { String($0.dropFirst(6)) }
            return endpoint != nil
        }
        self.endpoint = endpoint!
    }

    deinit {
        // The script kills the servers that it has started. If it was killed first, they would run on without files.
        process.kill(SIGTERM)
        for _ in 0..<200 where process.isRunning { usleep(10_000) }
    }

    /// The content of an object in the bucket. nil if there is no such object.
    package func object(_ key: String) async throws -> [UInt8]? {
        let directory = TemporaryDirectory()
        let curl = try ChildProcess(
            "curl",
            [
                "-sSf", "--aws-sigv4", "aws:amz:us-east-1:s3", "-u", "testkey:testsecret", "-H",
                "x-amz-content-sha256: UNSIGNED-PAYLOAD", "-o", directory.file("object"),
                "\(endpoint)/\(bucket)/\(key)",
            ])
        return try await curl.wait() == 0 ? directory.contents("object") : nil
    }

    /// Puts an object, and makes its bucket if there is none.
    package func put(_ bytes: FileBytes, as key: String, in bucket: String) async throws {
        let directory = TemporaryDirectory()
        try Data(bytes.all).write(to: URL(fileURLWithPath: directory.file("object")))
        for (path, more) in [(bucket, []), ("\(bucket)/\(key)", ["-T", directory.file("object")])] {
            let curl = try ChildProcess(
                "curl",
                [
                    "-sS", "--aws-sigv4", "aws:amz:us-east-1:s3", "-u", "testkey:testsecret", "-H",
                    "x-amz-content-sha256: UNSIGNED-PAYLOAD", "-X", "PUT", "-w", "%{http_code}", "-o",
                    directory.file("reply"), "\(endpoint)/\(path)",
                ] + more)
            let status = try await curl.wait()
            guard status == 0, ["200", "409"].contains(curl.standardOutput) else {
                throw ChildProcess.Missing(description: "PUT \(path): \(curl.standardOutput) \(curl.standardError)")
            }
        }
    }

    /// Kills the gateway. It restarts after `release`.
    package func killGateway() throws {
        _ = FileManager.default.createFile(atPath: directory.file("hold"), contents: nil)
        if let id = gateway { kill(id, SIGKILL) }
    }

    package func release() { unlink(directory.file("hold")) }

    /// Sends a signal to the gateway, such as SIGSTOP or SIGCONT.
    package func signalGateway(_ number: Int32) { if let id = gateway { kill(id, number) } }

    private var gateway: pid_t? {
        directory.contents("gateway").flatMap {
            pid_t(String(decoding: $0, as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines))
        }
    }
}
