import Foundation
import HaulTestSupport
import Testing

/// Never a mixture, with real workers. A worker is killed in the middle of all its downloads, the remote files change,
/// and another worker continues.
///
/// Runs a sample by default, and all kills of the matrix with `HAUL_MATRIX=full`.
@Suite struct KilledMatrixTests {
    /// A job, its server, and the number of requests before the kill.
    private struct Case {
        let id: String
        let matrixCase: MatrixCase
        let origin: MatrixOrigin
        var requests = 0
    }

    @Test("no finished file is a mixture after a worker was killed and the remote files changed")
    func killed() async throws {
        let isFull = ProcessInfo.processInfo.environment["HAUL_MATRIX"] == "full"
        let kills = MatrixCase.all.filter { $0.interruption == .kill }
        // The stride has no common factor with any dimension, so every pair of values occurs.
        let sample = isFull ? kills : stride(from: 0, to: kills.count, by: 11).map { kills[$0] }
        var tally = (right: 0, continued: 0)
        for start in stride(from: 0, to: sample.count, by: 64) {
            let batch = try await run(Array(sample[start..<min(start + 64, sample.count)]))
            tally = (tally.right + batch.right, tally.continued + batch.continued)
        }
        print("matrix of killed workers: \(sample.count) cases, \(tally.right) right (\(tally.continued) continued)")
        #expect(tally.right == sample.count)
        #expect(tally.continued >= sample.count(where: \.mustContinue))
    }

    private func run(_ sample: [MatrixCase]) async throws -> (right: Int, continued: Int) {
        let fleet = try await ProcessFleet()
        var cases = try sample.enumerated().map { index, matrixCase in
            // The origin holds the bytes, so no job completes before the kill.
            Case(
                id: "c\(index)", matrixCase: matrixCase,
                origin: try MatrixOrigin(matrixCase, pace: 60_000, held: 150_000))
        }
        let slots = ["--slots", "64", "--connections", "8"]
        let first = try ChildProcess("haul", fleet.arguments("first") + slots)
        for each in cases { try await fleet.server.cli("LPUSH", "haul:{default}:jobs", job(each)) }
        for each in cases { try await fleet.waitForOffsets(each.id) }
        first.kill(SIGKILL)
        _ = try await first.wait()
        for index in cases.indices {
            cases[index].requests = cases[index].origin.server.requests.count
            cases[index].origin.replace()
        }
        let second = try ChildProcess("haul", fleet.arguments("second") + slots)
        for each in cases { try await fleet.wait(each.id, for: "completed") }
        try await fleet.end(second)
        var tally = (right: 0, continued: 0)
        for each in cases {
            let file = fleet.root.contents(each.id)
            // If only the edges differ, the rest of the old version may come from the new one.
            let isRight = file == each.matrixCase.new.bytes || file == MatrixCase.old.bytes
            if isRight { tally.right += 1 }
            #expect(isRight, "\(each.matrixCase)")
            let hasContinued = each.origin.server.requests.dropFirst(each.requests).allSatisfy {
                $0.headers["range"] != nil
            }
            if hasContinued { tally.continued += 1 }
            #expect(hasContinued || !each.matrixCase.mustContinue, "\(each.matrixCase)")
        }
        return tally
    }

    private func job(_ each: Case) -> String {
        let checksum =
            each.matrixCase.validator == .jobChecksum ? #","checksum":"sha256:\#(each.matrixCase.new.checksum)""# : ""
        return
            #"{"id":"\#(each.id)","url":"\#(each.origin.url)","path":"\#(each.id)","connections":\#(each.matrixCase.connections)\#(checksum)}"#
    }
}
