import Foundation
import Glibc
import HaulTestSupport
import Testing

/// The gates of workers that are real processes.
@Suite(.timeLimit(.minutes(6))) struct GateProcessTests {
    private static func isAlive(_ process: Int) -> Bool {
        // A process that has ended and was not waited for counts as gone.
        let status = FileManager.default.contents(atPath: "/proc/\(process)/stat") ?? Data()
        let words = String(decoding: status, as: UTF8.self)
        return !words.isEmpty && !words.contains(") Z ")
    }

    @Test("a worker that is killed during the gate takes all its processes along, and the next gate sees the file")
    func killed() async throws {
        let fleet = try await ProcessFleet(held: nil)
        let notes = TemporaryDirectory()
        let go = notes.file("go")
        // Writes the numbers of its processes, and waits.
        let gate = """
            echo $GATE_ID >>\(notes.file("runs")); (sleep 600 & echo $! >>\(notes.file("processes")); wait) &
            echo $$ $! $PPID >>\(notes.file("processes")); until [ -e \(go) ]; do sleep 0.05; done
            """
        func numbers() -> [Int] {
            String(decoding: notes.contents("processes") ?? [], as: UTF8.self).split { $0.isWhitespace }
                .compactMap { Int($0) }
        }
        func runs() -> Int { notes.contents("runs")?.count { $0 == UInt8(ascii: "\n") } ?? 0 }
        let one = try ChildProcess("haul", fleet.arguments("one") + ["--gate", gate])
        try await fleet.push("a")
        try await eventually("four processes") { numbers().count == 4 }
        let first = numbers()
        #expect(first.allSatisfy(Self.isAlive))
        // The lease goes on for longer than its two seconds, although nothing arrives.
        let idle = try fleet.worker("idle")
        try await fleet.waitForTicks(8)
        #expect(runs() == 1)
        #expect(try await fleet.field("worker", of: "a") == "one")
        idle.kill(SIGKILL)
        one.kill(SIGKILL)
        try await eventually("the processes of the gate to end") { !first.contains(where: Self.isAlive) }
        #expect(fleet.root.names.allSatisfy { $0.hasPrefix(".haul-") })
        let two = try ChildProcess("haul", fleet.arguments("two") + ["--gate", gate])
        try await eventually("the second gate", within: .seconds(40)) { runs() == 2 }
        #expect(fleet.root.names.allSatisfy { $0.hasPrefix(".haul-") })
        _ = FileManager.default.createFile(atPath: go, contents: nil)
        try await fleet.wait("a", for: "completed")
        try await fleet.end(two)
        #expect(fleet.root.names == ["a"] && fleet.root.holds("a", ProcessFleet.bytes))
        #expect(!numbers().contains(where: Self.isAlive))
    }

    @Test("a worker that is ended during the gate ends within its grace time") func ended() async throws {
        let fleet = try await ProcessFleet(held: nil)
        let notes = TemporaryDirectory()
        let worker = try ChildProcess(
            "haul", fleet.arguments("one") + ["--gate", "echo $$ >\(notes.file("shell")); sleep 600"])
        try await fleet.push("a")
        try await eventually("the gate") { notes.contents("shell")?.isEmpty == false }
        worker.kill(SIGTERM)
        #expect(try await worker.wait(within: .seconds(15)) == 0)
        let shell = Int(String(decoding: notes.contents("shell") ?? [], as: UTF8.self).dropLast()) ?? 0
        #expect(shell > 0 && !Self.isAlive(shell))
        #expect(try await fleet.field("state", of: "a") == "queued")
    }
}
