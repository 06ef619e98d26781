import Foundation
import HaulTestSupport
import Testing

/// What people do with curl, wget and aria2, as they would type it to haul who have only read `--help`.
@Suite(.timeLimit(.minutes(4))) struct TaskTests {
    @Test("each task of Tests/tasks does at the first try what its author expects") func tasks() async throws {
        let haul = try #require(ChildProcess.path(of: "haul"))
        let program = Pages.repository.appending(path: "Tests/tasks/run.py").path
        let run = try ChildProcess("python3", ["-B", program, haul])
        let status = try await run.wait(within: .seconds(200))
        #expect(status == 0, "\(run.standardOutput)\(run.standardError)")
    }
}
