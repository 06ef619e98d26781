import Testing

@testable import HaulActivities

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
}
