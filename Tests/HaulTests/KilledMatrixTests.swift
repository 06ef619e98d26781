import Foundation
import HaulTestSupport
import Testing

/// Never a mixture, with real workers: one is killed with all of its downloads in mid-transfer, the remote files change, and
/// another one goes on.
///
/// A sample by default; all of the matrix' kills with `HAUL_MATRIX=full`.
@Suite struct KilledMatrixTests {
    /// A job, its server, and how many requests that had before the kill.
    private struct Case {
        let id: String
        let matrixCase: MatrixCase
        let origin: MatrixOrigin
        var requests = 0
    }

    @Test("a worker is killed, the files change, another goes on: no finished file is a mixture") func killed()
        async throws
    {
        let isFull = ProcessInfo.processInfo.environment["HAUL_MATRIX"] == "full"
        let kills = MatrixCase.all.filter { $0.interruption == .kill }
        // The stride shares no factor with any dimension, so that every pair of values occurs.
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
            // None is done before the kill.
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
            // Where only the edges differ, what the old version lacks may come from the new one.
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
