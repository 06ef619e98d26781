import HaulActivities
import HaulBus
import HaulContract
import Testing

@testable import HaulWorker

@Suite struct PendingReportTests {
    private static let run = Run(id: "1", token: "t")
    private static let point = ResumePoint(
        generation: "g", store: "s", file: "f", entity: Entity(etag: "\"e\"", total: 9), source: "u",
        offsets: ByteIntervals([0..<4]))

    @Test("a report that failed is sent again, without its progress events") func putBack() {
        var pending = PendingReport(resume: nil, isActive: false)
        #expect(!pending.needsTick && pending.oldestEvent == nil)
        pending.record(Self.point)
        pending.announce(Announcement("started"))
        pending.announce(Announcement("progress"))
        #expect(pending.needsTick && pending.oldestEvent != nil)
        let report = take(&pending)
        #expect(report.offsets == Self.point.offsets && report.reportsWaiting && report.reportsActivity)
        #expect(report.events.map(\.name) == ["started", "progress", "waiting"])
        #expect(!pending.needsTick)
        let unchanged = take(&pending)
        #expect(!unchanged.reportsWaiting && !unchanged.reportsActivity)
        pending.announce(Announcement("warning"))
        pending.putBack(report)
        // Neither the wait nor the activity counts as reported.
        let again = take(&pending)
        #expect(again.reportsWaiting && again.reportsActivity)
        #expect(again.events.map(\.name) == ["started", "warning", "waiting"])
        #expect(again.offsets == Self.point.offsets)
        // Redis may have applied the call that failed, so the end of the wait is reported as well.
        pending.putBack(again)
        let last = pending.take(ActivityProgress(), waitsFor: nil, isActive: true, of: Self.run)
        #expect(last.fields.contains { $0 == ("waiting", "") } && !last.events.map(\.name).contains("waiting"))
    }

    /// The report of an active run that waits for its host.
    private func take(_ pending: inout PendingReport) -> RunReport {
        pending.take(ActivityProgress(), waitsFor: .host, isActive: true, of: Self.run)
    }

    @Test("a run with a pending control operation needs a tick until the next one") func controlOperation() {
        var pending = PendingReport(resume: nil, isActive: false)
        pending.markControlPending()
        #expect(pending.needsTick)
        _ = pending.take()
        #expect(!pending.needsTick)
    }

    @Test("the loss of bytes is reported if Redis may know of them, and only then") func forgotten() {
        var known = PendingReport(resume: Self.point, isActive: true)
        known.forgetBytes()
        let found11 = known.take()
        #expect(found11.offsets?.isEmpty == true)
        var point = Self.point
        point.offsets = ByteIntervals()
        var unknown = PendingReport(resume: point, isActive: true)
        unknown.forgetBytes()
        let found12 = unknown.take()
        #expect(found12.offsets == nil)
    }

    @Test("a progress event is due about once a second") func progress() {
        let begun = ContinuousClock.now
        var pending = PendingReport(resume: nil, isActive: false, now: begun)
        var due: [Int] = []
        var progress = ActivityProgress()
        progress.connections = 1
        for tenth in 1...40 {
            let report = pending.take(
                progress, waitsFor: nil, isActive: true, of: Self.run, now: begun + .milliseconds(100 * tenth))
            if report.events.map(\.name) == ["progress"] { due.append(tenth) }
        }
        #expect(due == [9, 18, 27, 36])
    }

    @Test("a run that ends reports what a call has that is not answered yet") func unanswered() {
        var pending = PendingReport(resume: nil, isActive: true)
        pending.record(Self.point)
        _ = take(&pending)
        let last = pending.takeLast()
        #expect(last.offsets == Self.point.offsets)
        pending.record(Self.point)
        _ = take(&pending)
        pending.confirm()
        let confirmed = pending.takeLast()
        #expect(confirmed.offsets == nil)
    }

    @Test("however many warnings wait for Redis, a report has fifty events, and all that are no warnings")
    func many() {
        var pending = PendingReport(resume: nil, isActive: true)
        pending.announce(Announcement("started"))
        for n in 0..<9000 { pending.announce(Announcement("warning") { $0.set("message", "\(n)") }) }
        let report = pending.take()
        pending.announce(Announcement("restarted"))
        pending.putBack(report)
        let events = pending.take().events
        #expect(events.count == PendingReport.maxEvents)
        #expect(events.first?.name == "started" && events.last?.name == "restarted")
    }
}
