import Foundation
import HaulTestSupport
import Testing

/// What a worker serves over HTTP.
@Suite struct WorkerPageTests {
    @Test("a worker serves health and metrics on an address or a unix socket, and nothing else")
    func page() async throws {
        let fleet = try await ProcessFleet(held: nil)
        let socket = fleet.root.file(".http")
        let port = try LoopbackSocket.bind()
        close(port.descriptor)
        for (address, place) in [
            ("127.0.0.1:\(port.port)", ["http://127.0.0.1:\(port.port)"]),
            ("unix:\(socket)", ["--unix-socket", socket, "http://worker"]),
            // The socket file of a killed worker does not prevent the next one.
            ("unix:\(socket)", ["--unix-socket", socket, "http://worker"]),
        ] {
            let worker = try ChildProcess("haul", fleet.arguments("w") + ["--http", address])
            try await fleet.wait(for: "msg=working", from: worker)
            func get(_ path: String, _ more: String...) async throws -> String {
                let arguments = ["-s", "--max-time", "10", "-w", " %{http_code}"] + more
                let curl = try ChildProcess("curl", arguments + place.dropLast() + [place.last! + path])
                _ = try await curl.wait()
                return curl.standardOutput
            }
            #expect(try await get("/healthz") == "ok\n 200")
            try await eventually { try await get("/readyz") == "ok\n 200" }
            let metrics = try await get("/metrics")
            #expect(metrics.hasSuffix(" 200") && metrics.contains("\nhaul_slots 3\n"), "\(metrics)")
            try await Promtool.check(String(metrics.dropLast(4)))
            #expect(try await get("/").hasSuffix(" 404"))
            #expect(try await get("/metrics", "-X", "POST").hasSuffix(" 405"))
            #expect(try await get("/healthz", "-I").contains("200"))
            worker.kill(SIGKILL)
            _ = try await worker.wait()
        }
    }

    @Test("an invalid address is an error, and so is one in use") func wrong() async throws {
        let fleet = try await ProcessFleet(held: nil)
        let taken = try LoopbackSocket.listen()
        defer { close(taken.descriptor) }
        // Status 2 keeps a service manager from starting the worker again. An address in use may be free later.
        for (address, words, status) in [
            ("nowhere", "--http must be", 2), ("unix:relative", "--http must be", 2),
            ("127.0.0.1:\(taken.port)", "Address already in use", 1),
        ] as [(String, String, Int32)] {
            let worker = try ChildProcess("haul", fleet.arguments("w") + ["--http", address])
            #expect(try await worker.wait() == status)
            #expect(worker.standardError.contains(words), "\(worker.standardError)")
        }
    }
}
