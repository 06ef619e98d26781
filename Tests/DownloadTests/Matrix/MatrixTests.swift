import Foundation
import HaulContract
import HaulHTTP
import HaulTestSupport
import Synchronization
import Testing

@testable import HaulActivities

/// Never a mixture: entity changes × validators × responses × interruptions × connections.
///
/// Runs a sample by default, and all cases with `HAUL_MATRIX=full`.
@Suite struct MatrixTests {
    /// How many cases run at once.
    private static let width = 32

    @Test("a finished file is exactly one version, whatever changes during the download") func matrix() async throws {
        // The stride has no common factor with any dimension, so every pair of values occurs.
        try await run(Self.sample(every: 5), continuing: \.mustContinue) { try .directory() }
    }

    @Test(
        "a finished object is exactly one version, whatever changes during the download",
        arguments: ObjectServer.installed)
    func matrixOnBucket(_ kind: ObjectServer.Kind) async throws {
        let server = try await ObjectServer.shared(kind)
        try await run(Self.sample(every: 47), continuing: { $0.mustContinue && $0.interruption != .kill }) {
            try .bucket(server)
        }
    }

    private static func sample(every step: Int) -> [MatrixCase] {
        let isFull = ProcessInfo.processInfo.environment["HAUL_MATRIX"] == "full"
        return isFull ? MatrixCase.all : stride(from: 0, to: MatrixCase.all.count, by: step).map { MatrixCase.all[$0] }
    }

    private func run(
        _ cases: [MatrixCase], continuing mustContinue: (MatrixCase) -> Bool,
        in stores: @escaping @Sendable () throws -> MatrixStores
    ) async throws {
        let tally = Shared(MatrixTally())
        let here = Self.engine()
        let elsewhere = Self.engine()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for (index, matrixCase) in cases.enumerated() {
                if index >= Self.width { try await group.next() }
                group.addTask { try await MatrixRun(matrixCase, stores(), here, elsewhere).run(into: tally) }
            }
            try await group.waitForAll()
        }
        let all = tally.value
        print(
            "matrix: \(cases.count) cases, \(all.right) right (\(all.continued) continued), \(all.refused.count) refused, "
                + "\(all.wrong.count) wrong; bytes fetched twice: \(all.refetched), where it continued: \(all.refetchedByContinued)"
        )
        #expect(all.wrong.isEmpty)
        #expect(all.refused.isEmpty)
        #expect(all.startedOver.isEmpty)
        #expect(all.continued >= cases.count(where: mustContinue))
    }

    private static func engine() -> TransferEngine {
        var configuration = TransferEngine.Configuration()
        configuration.policy = .unrestricted
        return TransferEngine(configuration: configuration)
    }
}
