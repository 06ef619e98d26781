import Foundation
import Glibc
import HaulTestSupport
import Testing

@testable import HaulWorker

/// Whether a process on this machine still runs.
@Suite struct HostProcessTests {
    @Test("a process that runs is not gone") func there() throws {
        let own = try #require(HostProcess.current)
        #expect(!own.isGone)
        #expect(HostProcess(own.text[...]) == own)
        #expect(HostProcess.hostIdentity?.isEmpty == false)
    }

    @Test("a process that has ended is gone, whether its parent has waited for it or not") func gone() async throws {
        let child = try ChildProcess("sleep", ["600"])
        let text = try String(contentsOfFile: "/proc/\(child.id)/stat", encoding: .utf8)
        let start = String(try #require(text.split(separator: ")").last).split(separator: " ")[19])
        let process = HostProcess(id: child.id, start: start)
        #expect(!process.isGone)
        child.kill(SIGSTOP)
        #expect(!process.isGone)
        child.kill(SIGKILL)
        try await eventually("the process to be gone") { process.isGone }
        _ = try await child.wait()
        #expect(process.isGone)
    }

    @Test("a process is gone if another process has its id") func another() throws {
        let own = try #require(HostProcess.current)
        #expect(HostProcess(id: own.id, start: "1").isGone)
    }

    @Test("text that describes no process is refused", arguments: ["", "1", "x 1", "0 5", "-1 5", "1 2 3"])
    func text(_ text: String) {
        #expect(HostProcess(text[...]) == nil)
    }
}
