import HaulBus
import HaulContract
import HaulTestSupport
import Testing

@testable import HaulWorker

@Suite struct RunPhaseTests {
    @Test("a run that is stopped twice keeps the first reason, and cancels its activity once") func stopped() {
        var phase = RunPhase.claimed
        let found1 = phase.begin()
        #expect(found1 == .none)
        #expect(phase == .working)
        let first = phase.stop(.paused)
        #expect(first.isNew && first.action == .cancel)
        let second = phase.stop(.shutdown)
        #expect(!second.isNew && second.action == .none)
        phase.end()
        #expect(phase == .ended(.paused))
    }

    @Test("a run that is stopped before its activity begins cancels it as soon as it begins") func early() {
        var phase = RunPhase.claimed
        let found2 = phase.stop(.cancelled)
        #expect(found2.isNew)
        let found3 = phase.begin()
        #expect(found3 == .cancel)
        #expect(phase.stopReason == .cancelled)
    }

    @Test("`fenced` overrules every other reason, also after the end, and counts once")
    func fenced() {
        for reason in [RunPhase.StopReason.paused, .cancelled, .shutdown, .deadline] {
            var phase = RunPhase.working
            _ = phase.stop(reason)
            let found4 = phase.stop(.fenced)
            #expect(found4.isNew)
            let found5 = phase.stop(.fenced)
            #expect(!found5.isNew)
            let found6 = phase.stop(reason)
            #expect(!found6.isNew)
            #expect(phase == .stopping(.fenced))
        }
        var phase = RunPhase.working
        phase.end()
        #expect(phase == .ended(nil))
        let late = phase.stop(.fenced)
        #expect(late.isNew && late.action == .none)
        #expect(phase.hasEnded && phase.stopReason == .fenced)
    }

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
        var report = news.take()
        #expect(report.offsets == Self.point.offsets)
        #expect(report.events.map(\.name) == ["started", "progress"])
        #expect(!news.isAny)
        let found7 = news.record(isWaiting: true)
        #expect(found7)
        report.fields.append(("waiting", "host"))
        let found8 = news.record(isActive: true)
        #expect(found8)
        report.set(isActive: true, of: Self.run)
        news.announce(Announcement("warning"))
        news.putBack(report)
        // Neither counts as reported.
        let found9 = news.record(isWaiting: true)
        #expect(found9)
        let found10 = news.record(isActive: true)
        #expect(found10)
        let again = news.take()
        #expect(again.events.map(\.name) == ["started", "warning"])
        #expect(again.offsets == Self.point.offsets)
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

    @Test("the place of a partial file counts only if it replaces the expected generation") func place() {
        var news = RunNews(resume: Self.point, isActive: true)
        var place = Self.point
        place.generation = "h"
        let found13 = news.record(location: place, insteadOf: nil)
        #expect(!found13)
        #expect(news.resume?.generation == "g")
        let found14 = news.record(location: place, insteadOf: "g")
        #expect(found14)
        #expect(news.resume?.generation == "h")
    }

    @Test("a progress event is due about once a second") func progress() {
        let begun = ContinuousClock.now
        var news = RunNews(resume: nil, isActive: false, now: begun)
        var due: [Int] = []
        for tenth in 1...40 where news.isProgressDue(at: begun + .milliseconds(100 * tenth)) { due.append(tenth) }
        #expect(due == [9, 18, 27, 36])
    }
}
