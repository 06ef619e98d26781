import Foundation
import Glibc

/// A real redis-server on a unix socket, with a directory of its own.
package final class RedisServer: @unchecked Sendable {
    package let directory = TemporaryDirectory()
    private let arguments: [String]
    private var process: ChildProcess

    /// - Parameter settings: Lines of redis.conf as arguments: `["--requirepass", "secret"]`.
    package init(_ settings: [String] = []) async throws {
        arguments =
            [
                "--port", "0", "--unixsocket", directory.file("s"), "--dir", directory.path, "--save", "", "--logfile",
                directory.file("log"),
            ]
            + settings
        process = try ChildProcess("redis-server", arguments)
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
        process = try ChildProcess("redis-server", arguments)
        try await waitUntilReady()
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
