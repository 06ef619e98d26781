import HaulActivities
import HaulBus
import HaulContract
import Testing

@testable import HaulWorker

@Suite struct RunNewsTests {
    private static let run = Run(id: "1", token: "t")
    private static let point = ResumePoint(
        generation: "g", store: "s", file: "f", entity: Entity(etag: "\"e\"", total: 9), source: "u",
        offsets: ByteIntervals([0..<4]))

    @Test("a report that failed is sent again, without its progress events") func putBack() {
        var news = RunNews(resume: nil, isActive: false)
        #expect(!news.isAny && news.since == nil)
        news.record(Self.point)
        news.announce(Announcement("started"))
        news.announce(Announcement("progress"))
        #expect(news.isAny && news.since != nil)
        let report = take(&news)
        #expect(report.offsets == Self.point.offsets && report.reportsWaiting && report.reportsActivity)
        #expect(report.events.map(\.name) == ["started", "progress", "waiting"])
        #expect(!news.isAny)
        let unchanged = take(&news)
        #expect(!unchanged.reportsWaiting && !unchanged.reportsActivity)
        news.announce(Announcement("warning"))
        news.putBack(report)
        // Neither the wait nor the activity counts as reported.
        let again = take(&news)
        #expect(again.reportsWaiting && again.reportsActivity)
        #expect(again.events.map(\.name) == ["started", "warning", "waiting"])
        #expect(again.offsets == Self.point.offsets)
    }

    /// The report of an active run that waits for its host.
    private func take(_ news: inout RunNews) -> RunReport {
        news.take(ActivityProgress(), isWaiting: true, isActive: true, of: Self.run)
    }

    @Test("a pending request is news until the next tick") func asked() {
        var news = RunNews(resume: nil, isActive: false)
        news.markControlPending()
        #expect(news.isAny)
        _ = news.take()
        #expect(!news.isAny)
    }

    @Test("the loss of bytes is reported if Redis may know of them, and only then") func forgotten() {
        var known = RunNews(resume: Self.point, isActive: true)
        known.forgetBytes()
        let found11 = known.take()
        #expect(found11.offsets?.isEmpty == true)
        var point = Self.point
        point.offsets = ByteIntervals()
        var unknown = RunNews(resume: point, isActive: true)
        unknown.forgetBytes()
        let found12 = unknown.take()
        #expect(found12.offsets == nil)
    }

    @Test("a progress event is due about once a second") func progress() {
        let begun = ContinuousClock.now
        var news = RunNews(resume: nil, isActive: false, now: begun)
        var due: [Int] = []
        var progress = ActivityProgress()
        progress.connections = 1
        for tenth in 1...40 {
            let report = news.take(
                progress, isWaiting: false, isActive: true, of: Self.run, now: begun + .milliseconds(100 * tenth))
            if report.events.map(\.name) == ["progress"] { due.append(tenth) }
        }
        #expect(due == [9, 18, 27, 36])
    }
}
