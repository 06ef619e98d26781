import Foundation
import Glibc
import Testing

/// A real Redis server on a unix socket, with a directory of its own.
package final class RedisServer: @unchecked Sendable {
    package enum Kind: String, Sendable, CaseIterable, CustomTestStringConvertible {
        /// The redis-server in PATH.
        case standard = "redis-server"
        case redis8 = "Redis 8"
        case valkey = "Valkey"

        package var testDescription: String { rawValue }

        fileprivate var program: String? {
            switch self {
            case .standard: rawValue
            case .redis8: RedisServer.program("HAUL_REDIS_8", "redis-server")
            case .valkey: RedisServer.program("HAUL_VALKEY", "valkey-server")
            }
        }

        /// The servers that this machine has. deploy/test.sh installs all of them.
        package static let installed = allCases.filter { $0.program != nil }
    }

    /// The path of a server that an environment variable names, or that deploy/test.sh has installed.
    private static func program(_ variable: String, _ name: String) -> String? {
        let own = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
            .appendingPathComponent("../../.build/redis-servers/bin/\(name)").path
        return ProcessInfo.processInfo.environment[variable] ?? (access(own, X_OK) == 0 ? own : nil)
    }

    package let directory = TemporaryDirectory()
    private let program: String
    private let arguments: [String]
    private var process: ChildProcess

    /// - Parameter settings: Lines of redis.conf as arguments: `["--requirepass", "secret"]`.
    package init(_ settings: [String] = [], kind: Kind = .standard) async throws {
        program = kind.program ?? kind.rawValue
        arguments =
            [
                "--port", "0", "--unixsocket", directory.file("s"), "--dir", directory.path, "--save", "", "--logfile",
                directory.file("log"),
            ]
            + settings
        process = try ChildProcess(program, arguments)
        try await waitUntilReady()
    }

    deinit { process.kill(SIGKILL) }

    package var socket: String { directory.file("s") }
    package var url: String { "unix://\(socket)" }

    package func signal(_ number: Int32) { process.kill(number) }

    /// Ends the server and starts it again, with the data on its disk.
    package func restart(by number: Int32 = SIGTERM) async throws {
        process.kill(number)
        _ = try await process.wait()
        process = try ChildProcess(program, arguments)
        try await waitUntilReady()
    }

    /// Kills the server, lets `change` work on its directory, and starts it again. Returns its exit status if it ends
    /// instead of listening.
    package func restart(after change: (String) async throws -> Void) async throws -> Int32? {
        process.kill(SIGKILL)
        _ = try await process.wait()
        try await change(directory.path)
        process = try ChildProcess(program, arguments)
        // It listens before it has read its data.
        try await eventually("redis-server to answer or to end") {
            try await self.cli("PING") == "PONG" || !self.process.isRunning
        }
        return process.isRunning ? nil : try await process.wait()
    }

    /// The output of redis-cli for a command.
    @discardableResult
    package func cli(_ arguments: String...) async throws -> String {
        let cli = try ChildProcess("redis-cli", ["-s", socket] + arguments)
        _ = try await cli.wait()
        return cli.standardOutput.trimmingCharacters(in: .whitespacesAndNewlines)
    }

    /// A number from INFO. 0 if INFO does not have it.
    package func statistic(_ name: String) async throws -> Int {
        let line = try await cli("INFO", "all").split(whereSeparator: \.isNewline).first { $0.hasPrefix("\(name):") }
        return line.flatMap { Int($0.dropFirst(name.count + 1)) } ?? 0
    }

    private func waitUntilReady() async throws {
        try await eventually("redis-server to listen") { Self.canConnect(self.socket) }
    }

    private static func canConnect(_ path: String) -> Bool {
        let descriptor = Glibc.socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(descriptor) }
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
        return withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size)) == 0
            }
        }
    }
}
