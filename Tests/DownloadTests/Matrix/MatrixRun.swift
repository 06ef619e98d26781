import HaulContract
import HaulHTTP
import HaulTestSupport
import Synchronization

@testable import HaulActivities

/// The results of the cases.
struct MatrixTally: Sendable {
    var right = 0
    var refused: [String] = []
    var wrong: [String] = []
    /// Cases that had to continue and started over.
    var startedOver: [String] = []
    var continued = 0
    /// Bytes fetched beyond one copy of the file: in all cases, and in those that continued.
    var refetched: Int64 = 0
    var refetchedByContinued: Int64 = 0
}

/// One case from its first byte to its result: a run that is interrupted, and the next runs elsewhere.
struct MatrixRun: Sendable {
    /// How many bytes have arrived at the checkpoint, and at the interruption.
    private static let checkpointed: Int64 = 300_000
    private static let interrupted: Int64 = 500_000
    private static let attempts = 5

    private let matrixCase: MatrixCase
    private let origin: MatrixOrigin
    private let stores: MatrixStores
    private let here: ActivityContext
    private let elsewhere: ActivityContext
    private let events = Shared<[String]>([])

    init(_ matrixCase: MatrixCase, _ stores: MatrixStores, _ here: TransferEngine, _ elsewhere: TransferEngine) throws {
        (self.matrixCase, self.stores) = (matrixCase, stores)
        origin = try MatrixOrigin(matrixCase)
        self.here = ActivityContext(store: stores.here, engine: here)
        self.elsewhere = ActivityContext(store: stores.elsewhere, engine: elsewhere)
    }

    /// Whether the durable bytes suffice to continue. After a kill a bucket has nothing of its incomplete parts.
    private var mustContinue: Bool {
        matrixCase.mustContinue && (stores.keepsEachByte || matrixCase.interruption != .kill)
    }

    func run(into tally: Shared<MatrixTally>) async throws {
        let first = download(here, resume: nil)
        let task = Task { await first.outcome() }
        try await eventually("\(matrixCase): the first bytes") { first.transferred >= Self.checkpointed }
        let checkpoint = await first.checkpoint().point
        try await eventually("\(matrixCase): more bytes") { first.transferred >= Self.interrupted }
        origin.replace()
        var fetched: Int64 = 0
        var resume = checkpoint
        var outcome: ActivityOutcome?
        switch matrixCase.interruption {
        case .pause:
            task.cancel()
            _ = await task.value
            resume = await first.finalCheckpoint() ?? checkpoint
        case .kill:
            // The bytes after the checkpoint are in the file, but no record names them.
            task.cancel()
            _ = await task.value
        case .cut:
            origin.server.cutConnections()
            let result = await task.value
            if result.isRetried { resume = await first.finalCheckpoint() ?? checkpoint } else { outcome = result }
        }
        fetched += first.transferred
        for _ in 0..<Self.attempts where outcome == nil {
            let next = download(elsewhere, resume: resume)
            let result = await next.outcome()
            fetched += next.transferred
            if result.isRetried { resume = await next.finalCheckpoint() ?? resume } else { outcome = result }
        }
        count(outcome, fetched, await stores.contents(), in: tally)
    }

    private func count(
        _ outcome: ActivityOutcome?, _ fetched: Int64, _ file: [UInt8]?, in tally: Shared<MatrixTally>
    ) {
        // If only the edges differ, the rest of the old version may come from the new one.
        let isWhole = outcome?.file != nil && (file == matrixCase.new.bytes || file == MatrixCase.old.bytes)
        let isRefused = outcome?.file == nil && file == nil
        let hasContinued = isWhole && !events.value.contains("restarted") && !events.value.contains("begun again")
        let refetched = max(0, fetched - matrixCase.new.count)
        tally.change { tally in
            if isWhole {
                tally.right += 1
            } else if isRefused {
                tally.refused.append("\(matrixCase): \(outcome?.code?.rawValue ?? "no end")")
            } else {
                tally.wrong.append("\(matrixCase)")
            }
            if hasContinued { tally.continued += 1 }
            if mustContinue, !hasContinued { tally.startedOver.append("\(matrixCase)") }
            tally.refetched += refetched
            if hasContinued { tally.refetchedByContinued += refetched }
        }
    }

    private func download(_ context: ActivityContext, resume: ResumePoint?) -> Download {
        var job = Job(id: "j", urls: [origin.url])
        job.connections = matrixCase.connections
        if matrixCase.validator == .jobChecksum { job.checksum = .init("sha256:" + matrixCase.new.checksum) }
        return Download(
            job: job, token: String(UInt64.random(in: 0...(.max)), radix: 16), key: String(repeating: "a", count: 40),
            resume: resume, completed: nil, clock: SharedClock(serverTime: UnixTime.milliseconds), context: context,
            mayCommit: { true },
            report: { [events] event in
                switch event {
                case .restarted: events.change { $0.append("restarted") }
                case .started where events.value.contains("started"): events.change { $0.append("begun again") }
                case .started: events.change { $0.append("started") }
                default: break
                }
            })
    }
}

extension ActivityOutcome {
    /// Whether a worker would try again.
    fileprivate var isRetried: Bool {
        if case .failed(let failure) = self { RetryPolicy.isRetryable(failure) } else { false }
    }
}
