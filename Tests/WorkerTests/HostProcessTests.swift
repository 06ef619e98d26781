import Foundation
import Glibc
import HaulTestSupport
import Testing

@testable import HaulWorker

/// Whether a process of this machine is there.
@Suite struct HostProcessTests {
    @Test("one that runs is there") func there() throws {
        let own = try #require(HostProcess.current)
        #expect(!own.isGone)
        #expect(HostProcess(own.text[...]) == own)
        #expect(HostProcess.place?.isEmpty == false)
    }

    @Test("one that has ended is gone, whether its parent has noted that or not") func gone() async throws {
        let child = try ChildProcess("sleep", ["600"])
        let text = try String(contentsOfFile: "/proc/\(child.id)/stat", encoding: .utf8)
        let start = String(try #require(text.split(separator: ")").last).split(separator: " ")[19])
        let process = HostProcess(id: child.id, start: start)
        #expect(!process.isGone)
        child.kill(SIGSTOP)
        #expect(!process.isGone)
        child.kill(SIGKILL)
        try await eventually("its end") { process.isGone }
        _ = try await child.wait()
        #expect(process.isGone)
    }

    @Test("one whose number has been given again is gone") func another() throws {
        let own = try #require(HostProcess.current)
        #expect(HostProcess(id: own.id, start: "1").isGone)
    }

    @Test("what is no process' text is none", arguments: ["", "1", "x 1", "0 5", "-1 5", "1 2 3"]) func text(
        _ text: String
    ) {
        #expect(HostProcess(text[...]) == nil)
    }
}
