import HaulTestSupport
import Testing

@testable import HaulExecutors

@Suite struct DequeTests {
    @Test("a deque is first in, first out while it grows and shrinks") func order() {
        var generator = SystemRandomNumberGenerator()
        var deque = Deque<Int>()
        var model: [Int] = []
        for number in 0..<20_000 {
            if Int.random(in: 0..<100, using: &generator) < (number % 4000 < 2000 ? 70 : 30) {
                deque.append(number)
                model.append(number)
            } else {
                #expect(deque.popFirst() == (model.isEmpty ? nil : model.removeFirst()))
            }
            #expect(deque.count == model.count && deque.isEmpty == model.isEmpty)
            if !model.isEmpty { #expect(deque[model.count / 2] == model[model.count / 2]) }
        }
    }

    @Test("an element that was popped is released") func release() {
        final class Held {}
        var deque = Deque<Held>()
        weak var first: Held?
        do {
            let held = Held()
            first = held
            deque.append(held)
            deque.append(Held())
        }
        #expect(deque.popFirst() != nil)
        #expect(first == nil && deque.count == 1)
    }
}

@Suite struct TimerQueueTests {
    @Test("timers are due by deadline, then by order of scheduling, and cancelled timers never")
    func order() {
        let start = ContinuousClock.now
        var queue = TimerQueue()
        var expected: [(deadline: Int, number: Int, id: UInt64)] = []
        var fired: [Int] = []
        for number in 0..<3000 {
            let deadline = Int.random(in: 0..<200)
            let id = queue.schedule(at: start + .milliseconds(deadline)) { fired.append(number) }
            expected.append((deadline, number, id))
            if Int.random(in: 0..<3) < 2 { queue.cancel(expected.remove(at: Int.random(in: 0..<expected.count)).id) }
            let next = queue.nextDeadline
            #expect(next == expected.map(\.deadline).min().map { start + .milliseconds($0) })
        }
        let due = expected.filter { $0.deadline <= 100 }.sorted { ($0.deadline, $0.number) < ($1.deadline, $1.number) }
        while let handler = queue.popDue(at: start + .milliseconds(100), upTo: queue.lastID) { handler() }
        let isInOrder = fired == due.map(\.number)
        #expect(isInOrder)
        #expect(queue.count == expected.count - due.count)
    }

    @Test("cancelled timers do not accumulate until their deadlines") func piles() {
        var queue = TimerQueue()
        let far = ContinuousClock.now + .seconds(3600)
        _ = queue.schedule(at: far) {}
        for _ in 0..<100_000 { queue.cancel(queue.schedule(at: far) {}) }
        #expect(queue.count == 1)
        #expect(queue.heap.count < 100)
    }

    @Test("a timer that a handler schedules for the past is due only in the next turn") func past() {
        var queue = TimerQueue()
        let now = ContinuousClock.now
        _ = queue.schedule(at: now) {}
        let last = queue.lastID
        #expect(queue.popDue(at: now, upTo: last) != nil)
        _ = queue.schedule(at: now - .seconds(1)) {}
        #expect(queue.popDue(at: now, upTo: last) == nil)
        #expect(queue.popDue(at: now, upTo: queue.lastID) != nil)
    }
}
