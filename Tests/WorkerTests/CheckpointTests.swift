import Testing

@testable import Worker

/// When a run tells how far it is.
@Suite struct CheckpointTests {
    @Test("what is worth much is told at once, the rest waits for its second") func due() {
        var pace = CheckpointPace()
        let never = Duration.seconds(3600)
        #expect(pace.next(arrived: 0, interval: .zero) == nil)
        #expect(pace.next(arrived: 1, interval: never) == nil)
        #expect(pace.next(arrived: 1, interval: .zero) == .canWait)
        #expect(pace.next(arrived: 32 << 20, interval: never) == nil)
        #expect(pace.next(arrived: 32 << 20, interval: .zero) == .urgent)
        #expect(pace.next(arrived: 32 << 20, interval: .zero) == nil)
        #expect(pace.next(arrived: 64 << 20, interval: never) == .urgent)
    }
}
