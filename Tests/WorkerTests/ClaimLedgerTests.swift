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

    @Test("nothing is claimed before the worker is registered, nor while it registers anew") func registration() {
        var ledger = ClaimLedger<Int>()
        #expect(ledger.needsRegistration && !ledger.begin(["a"]))
        #expect(ledger.beginRegistration().isEmpty)
        #expect(!ledger.begin(["a"]))
        ledger.endRegistration(succeeded: false)
        #expect(ledger.needsRegistration && !ledger.begin(["a"]))
        _ = ledger.beginRegistration()
        ledger.endRegistration(succeeded: true)
        #expect(!ledger.needsRegistration && ledger.begin(["a"]))
        _ = ledger.beginRegistration()
        _ = ledger.beginRegistration()
        ledger.endRegistration(succeeded: true)
        #expect(!ledger.mayClaim, "another one is under way")
        ledger.endRegistration(succeeded: true)
        #expect(ledger.mayClaim && ledger.session == 4)
    }

    @Test("a registration names what is asked for, what runs and what is being settled") func known() {
        var ledger = registered()
        #expect(ledger.begin(["asked", "running", "settling", "empty"]))
        ledger.end(["running", "settling", "empty"], claimed: ["running", "settling"])
        ledger.enter("running", 1)
        ledger.enter("settling", 2)
        ledger.leave("settling")
        #expect(Set(ledger.beginRegistration()) == ["asked", "running", "settling"])
        ledger.forget("settling")
        #expect(Set(ledger.beginRegistration()) == ["asked", "running"])
    }

    @Test("a claim whose answer was lost is not named, and no other is made before the next registration") func lost() {
        var ledger = registered()
        #expect(ledger.begin(["a"]))
        ledger.lose(["a"])
        #expect(ledger.isInDoubt && ledger.needsRegistration && !ledger.begin(["b"]))
        #expect(ledger.beginRegistration().isEmpty)
        ledger.endRegistration(succeeded: true)
        #expect(ledger.begin(["b"]))
    }

    @Test("a doubt that comes while the worker registers outlasts that registration") func doubt() {
        var ledger = registered()
        _ = ledger.beginRegistration()
        ledger.doubt()
        ledger.endRegistration(succeeded: true)
        #expect(!ledger.mayClaim && ledger.needsRegistration)
    }

    @Test("a paused queue gives nothing, a full one may") func gate() {
        var ledger = registered()
        ledger.note(.paused)
        #expect(!ledger.mayClaim)
        ledger.note(.full)
        #expect(ledger.mayClaim)
    }

    @Test("the same trouble is told once in ten seconds, another one once in one") func trouble() {
        var note = TroubleNote()
        let now = ContinuousClock.now
        #expect(note.isNews("a", at: now))
        #expect(!note.isNews("a", at: now + .seconds(9)))
        #expect(!note.isNews("b", at: now + .milliseconds(900)))
        #expect(note.isNews("b", at: now + .milliseconds(1100)))
        #expect(note.isNews("b", at: now + .seconds(12)))
    }
}
