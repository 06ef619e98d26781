import HaulBus
import Testing

@testable import HaulWorker

/// Which claims a worker counts as its own.
@Suite struct ClaimLedgerTests {
    private func registered() -> ClaimLedger<Int> {
        var ledger = ClaimLedger<Int>()
        _ = ledger.beginRegistration()
        ledger.endRegistration(succeeded: true)
        return ledger
    }

    @Test("a worker claims nothing before it is registered, nor while it registers again") func registration() {
        var ledger = ClaimLedger<Int>()
        #expect(ledger.needsRegistration && !ledger.mayClaim)
        let known = ledger.beginRegistration()
        #expect(known.isEmpty && !ledger.mayClaim)
        ledger.endRegistration(succeeded: false)
        #expect(ledger.needsRegistration && !ledger.mayClaim)
        _ = ledger.beginRegistration()
        ledger.endRegistration(succeeded: true)
        #expect(!ledger.needsRegistration && ledger.mayClaim)
        _ = ledger.beginRegistration()
        _ = ledger.beginRegistration()
        ledger.endRegistration(succeeded: true)
        #expect(!ledger.mayClaim, "another registration is in progress")
        ledger.endRegistration(succeeded: true)
        #expect(ledger.mayClaim && ledger.session == 4)
    }

    @Test("a registration names the claims that are requested, that run and that are being settled") func known() {
        var ledger = registered()
        let mayBegin = ledger.begin(["asked", "running", "settling", "empty"])
        #expect(mayBegin)
        ledger.end(["running", "settling", "empty"], claimed: ["running", "settling"])
        ledger.enter("running", 1)
        ledger.enter("settling", 2)
        ledger.leave("settling")
        var known = Set(ledger.beginRegistration())
        #expect(known == ["asked", "running", "settling"])
        ledger.forget("settling")
        known = Set(ledger.beginRegistration())
        #expect(known == ["asked", "running"])
    }

    @Test("a claim whose reply was lost is not named, and no other is made before the next registration") func lost() {
        var ledger = registered()
        _ = ledger.begin(["a"])
        ledger.lose(["a"])
        let mayBegin = ledger.begin(["b"])
        #expect(ledger.isInDoubt && ledger.needsRegistration && !mayBegin)
        let known = ledger.beginRegistration()
        #expect(known.isEmpty)
        ledger.endRegistration(succeeded: true)
        #expect(ledger.mayClaim)
    }

    @Test("a doubt that arises during a registration outlasts the registration") func doubt() {
        var ledger = registered()
        _ = ledger.beginRegistration()
        ledger.doubt()
        ledger.endRegistration(succeeded: true)
        #expect(!ledger.mayClaim && ledger.needsRegistration)
    }

    @Test("nothing is claimed from a paused queue, but a full queue is asked") func gate() {
        var ledger = registered()
        ledger.record(.paused)
        #expect(!ledger.mayClaim)
        ledger.record(.full)
        #expect(ledger.mayClaim)
    }

    @Test("the same error is logged once in ten seconds, another error after one second") func trouble() {
        var note = ErrorThrottle()
        let now = ContinuousClock.now
        let cases: [(String, Duration)] = [
            ("a", .zero), ("b", .milliseconds(900)), ("a", .seconds(9)), ("b", .milliseconds(9100)),
            ("b", .milliseconds(19_000)), ("b", .milliseconds(19_200)),
        ]
        let news = cases.map { note.isNews($0.0, at: now + $0.1) }
        #expect(news == [true, false, false, true, false, true])
    }
}
