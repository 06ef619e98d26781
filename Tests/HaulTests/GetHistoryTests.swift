import Foundation
import HaulTestSupport
import Testing

/// `haul get` in directories with a history: other URLs' files, users' files, new versions, and runs that were killed.
///
/// `HAUL_GET_HISTORIES` sets the number of histories, and `HAUL_GET_SEED` the seed of the first one, which is 1 otherwise.
@Suite struct GetHistoryTests {
    private struct End: Sendable {
        let kills: Int
        let complaints: [String]
    }

    @Test("no history of files, versions, options and kills ends with a wrong file or a hidden one")
    func histories() async throws {
        let environment = ProcessInfo.processInfo.environment
        let count = environment["HAUL_GET_HISTORIES"].flatMap { Int($0) } ?? 6
        let first = environment["HAUL_GET_SEED"].flatMap { UInt64($0) } ?? 1
        let steps = try await CommitSteps()
        var (kills, complaints) = (0, [String]())
        try await withThrowingTaskGroup(of: End.self) { group in
            for index in 0..<count {
                if index >= 4, let end = try await group.next() {
                    kills += end.kills
                    complaints += end.complaints
                }
                group.addTask {
                    let history = try GetHistory(seed: first &+ UInt64(index), steps)
                    try await history.run()
                    return End(kills: history.kills, complaints: history.complaints)
                }
            }
            for try await end in group {
                kills += end.kills
                complaints += end.complaints
            }
        }
        print("histories of haul get: \(count) from seed \(first), \(kills) kills, \(complaints.count) wrong")
        #expect(kills > 0)
        for complaint in complaints.prefix(5) { Issue.record("\(complaint)") }
        #expect(complaints.isEmpty)
    }
}
