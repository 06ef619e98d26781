import HaulBus
import HaulTestSupport
import Testing

@testable import HaulWorker

/// Which claims a worker counts as its own.
@Suite struct ClaimLedgerTests {
    private func registered() -> ClaimLedger {
        var ledger = ClaimLedger()
        _ = ledger.beginRegistration()
        ledger.endRegistration(succeeded: true)
        return ledger
    }

    @Test("a worker claims nothing before it is registered, nor while it registers again") func registration() {
        var ledger = ClaimLedger()
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
        #expect(ledger.mayBeOutOfSync && ledger.needsRegistration && !mayBegin)
        let known = ledger.beginRegistration()
        #expect(known.isEmpty)
        ledger.endRegistration(succeeded: true)
        #expect(ledger.mayClaim)
    }

    @Test("a call that fails during a registration requires another registration") func failedCall() {
        var ledger = registered()
        _ = ledger.beginRegistration()
        ledger.markOutOfSync()
        ledger.endRegistration(succeeded: true)
        #expect(!ledger.mayClaim && ledger.needsRegistration)
    }

    @Test("a registration names every claim from its request to its settle, in whatever order replies arrive")
    func interleaved() {
        var random = SeededGenerator(state: 7)
        for _ in 0..<2000 {
            var ledger = registered()
            // The tokens that Redis may hold for this worker, by the events alone.
            var (requested, claimed): (Set<String>, Set<String>) = ([], [])
            for step in 0..<40 {
                let token = "\(step)"
                switch Int.random(in: 0..<6, using: &random) {
                case 0, 1: if ledger.begin([token]) { requested.insert(token) }
                case 2:
                    guard let one = requested.randomElement(using: &random) else { continue }
                    requested.remove(one)
                    let hasJob = Bool.random(using: &random)
                    ledger.end([one], claimed: hasJob ? [one] : [])
                    if hasJob { claimed.insert(one) }
                case 3:
                    guard let one = requested.randomElement(using: &random) else { continue }
                    requested.remove(one)
                    ledger.lose([one])
                case 4:
                    guard let one = claimed.randomElement(using: &random) else { continue }
                    claimed.remove(one)
                    ledger.forget(one)
                default:
                    let named = Set(ledger.beginRegistration())
                    #expect(named == requested.union(claimed))
                    // Whatever is asked meanwhile would be unknown to this registration.
                    let mayBegin = ledger.begin(["meanwhile"])
                    #expect(!mayBegin)
                    ledger.endRegistration(succeeded: true)
                }
            }
        }
    }

    @Test("nothing is claimed from a paused queue, but a full queue is asked") func gate() {
        var ledger = registered()
        ledger.record(.paused)
        #expect(!ledger.mayClaim)
        ledger.record(.full)
        #expect(ledger.mayClaim)
    }

    @Test("the same error is logged once in ten seconds, another error after one second") func fault() {
        var note = ErrorThrottle()
        let now = ContinuousClock.now
        let cases: [(String, Duration)] = [
            ("a", .zero), ("b", .milliseconds(900)), ("a", .seconds(9)), ("b", .milliseconds(9100)),
            ("b", .milliseconds(19_000)), ("b", .milliseconds(19_200)),
        ]
        let logged = cases.map { note.shouldLog($0.0, at: now + $0.1) }
        #expect(logged == [true, false, false, true, false, true])
    }
}
