import Foundation
import Glibc
import HaulTestSupport
import Testing

/// A worker under a service manager.
@Suite struct ServiceTests {
    /// A socket in the role of systemd's.
    private final class Manager: Sendable {
        let path: String
        private let descriptor: Int32
        private let messages = Shared<[String]>([])

        init(in directory: TemporaryDirectory) {
            path = directory.file("notify")
            descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue), 0)
            var place = sockaddr_un()
            place.sun_family = sa_family_t(AF_UNIX)
            withUnsafeMutableBytes(of: &place.sun_path) { $0.copyBytes(from: path.utf8) }
            _ = withUnsafeBytes(of: &place) {
                bind(
                    descriptor, $0.assumingMemoryBound(to: sockaddr.self).baseAddress,
                    socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }

        deinit { close(descriptor) }

        /// All messages received so far.
        var received: [String] {
            var bytes = [UInt8](repeating: 0, count: 4096)
            while case let count = recv(descriptor, &bytes, bytes.count, Int32(MSG_DONTWAIT)), count > 0 {
                let message = String(decoding: bytes[..<count], as: UTF8.self)
                messages.change { $0.append(message) }
            }
            return messages.value
        }

        func index(of words: String, after start: Int = 0) -> Int? {
            received.indices.dropFirst(start).first { received[$0].contains(words) }
        }
    }

    @Test("a worker notifies its manager that it is ready, alive, reloading and stopping") func notify() async throws {
        let fleet = try await ProcessFleet(held: nil)
        let directory = TemporaryDirectory()
        let manager = Manager(in: directory)
        let worker = try ChildProcess(
            "haul", fleet.arguments("w"),
            environment: ["NOTIFY_SOCKET": manager.path, "WATCHDOG_USEC": "400000"])
        try await eventually("READY=1") { manager.index(of: "READY=1") != nil }
        #expect(worker.standardError.contains("working"))
        let ready = try #require(manager.index(of: "READY=1"))
        #expect(manager.received[ready].contains("STATUS=0 of 3 slots taken"))
        try await eventually("three watchdog messages") { manager.received.count { $0.hasPrefix("WATCHDOG=1") } >= 3 }
        worker.kill(SIGHUP)
        try await eventually("RELOADING=1") { manager.index(of: "RELOADING=1") != nil }
        let reloading = try #require(manager.index(of: "RELOADING=1"))
        #expect(manager.received[reloading].contains("MONOTONIC_USEC="))
        try await eventually("READY=1 after the reload") { manager.index(of: "READY=1", after: reloading) != nil }
        worker.kill(SIGTERM)
        #expect(try await worker.wait() == 0)
        #expect(manager.index(of: "STOPPING=1", after: reloading) != nil)
    }

    @Test("SIGHUP applies the settings that may change, and the log says what was applied and what was not")
    func reload() async throws {
        let fleet = try await ProcessFleet()
        let directory = TemporaryDirectory()
        func configure(_ text: String) throws {
            try Data(text.utf8).write(to: URL(fileURLWithPath: directory.file("conf")))
        }
        try configure("slots = 1\n")
        let worker = try ChildProcess("haul", fleet.arguments("w") + ["--config", directory.file("conf")])
        try await fleet.push("one")
        try await fleet.push("two")
        try await fleet.wait("one", for: "running")
        #expect(try await fleet.server.cli("LLEN", "haul:{default}:jobs") == "1")

        try configure("slots = 2\nlimit-rate = 900000000\nkeep-free = 1000\n")
        worker.kill(SIGHUP)
        try await fleet.wait("two", for: "running")
        try await fleet.wait(for: "taken=\"slots limit-rate\"", from: worker)
        try await fleet.wait(for: "settings=keep-free", from: worker)

        try configure("slots = 2\nca = /no/such/file\n")
        worker.kill(SIGHUP)
        try await fleet.wait(for: "settings stay as they were", from: worker)
        #expect(!worker.standardError.contains("haul: "), "\(worker.standardError)")
        try configure("slot = 2\n")
        worker.kill(SIGHUP)
        try await fleet.wait(for: "Did you mean slots?", from: worker)

        fleet.gate.open()
        for id in ["one", "two"] { try await fleet.wait(id, for: "completed") }
        try await fleet.end(worker)
    }

    @Test("the page notifies its manager that it is ready, alive and stopping") func page() async throws {
        let server = try await RedisServer()
        let directory = TemporaryDirectory()
        let manager = Manager(in: directory)
        let page = try ChildProcess(
            "haul", ["web", "--redis", server.url, "--listen", "127.0.0.1:0"],
            environment: ["NOTIFY_SOCKET": manager.path, "WATCHDOG_USEC": "300000"])
        try await eventually("READY=1: \(page.standardError)") { manager.index(of: "READY=1") != nil }
        try await eventually("three watchdog messages") { manager.received.count { $0.hasPrefix("WATCHDOG=1") } >= 3 }
        page.kill(SIGTERM)
        #expect(try await page.wait(within: .seconds(20)) == 0)
        #expect(manager.index(of: "STOPPING=1") != nil)
    }

    @Test("every command finds Redis by the file that HAUL_REDIS_FILE names") func file() async throws {
        let server = try await RedisServer()
        let directory = TemporaryDirectory()
        let path = directory.file("redis")
        try (server.url + "\n").write(toFile: path, atomically: true, encoding: .utf8)
        let load = try ChildProcess("haul", ["load-functions"], environment: ["HAUL_REDIS_FILE": path])
        #expect(try await load.wait(within: .seconds(20)) == 0, "\(load.standardError)")
        let missing = try ChildProcess("haul", ["stats"], environment: ["HAUL_REDIS_FILE": path + "-missing"])
        #expect(try await missing.wait(within: .seconds(20)) == 2)
        #expect(missing.standardError.contains("HAUL_REDIS_FILE names the file"), "\(missing.standardError)")
    }
}
