/// Timers in the order of their deadlines: a binary heap.
///
/// `cancel` removes only the handler and leaves the heap entry. An entry without a handler is skipped when it reaches
/// the top. All such entries are removed as soon as they are more than half of the heap. So a cancel is cheap, and most
/// timers are cancelled.
struct TimerQueue {
    typealias Instant = ContinuousClock.Instant

    struct Entry {
        let deadline: Instant
        let id: UInt64

        /// Timers with the same deadline fire in the order in which they were scheduled.
        func isBefore(_ other: Entry) -> Bool { (deadline, id) < (other.deadline, other.id) }
    }

    private(set) var heap: [Entry] = []
    private var handlers: [UInt64: () -> Void] = [:]
    private(set) var lastID: UInt64 = 0

    /// How many timers will still fire.
    var count: Int { handlers.count }

    /// When the next timer is due.
    var nextDeadline: Instant? {
        mutating get {
            dropCancelled()
            return heap.first?.deadline
        }
    }

    mutating func schedule(at deadline: Instant, handler: @escaping () -> Void) -> UInt64 {
        lastID += 1
        handlers[lastID] = handler
        heap.append(Entry(deadline: deadline, id: lastID))
        siftUp()
        return lastID
    }

    mutating func cancel(_ id: UInt64) {
        guard handlers.removeValue(forKey: id) != nil, heap.count > 64, heap.count > 2 * handlers.count else { return }
        // A sorted array is a valid heap.
        heap = heap.filter { handlers[$0.id] != nil }.sorted { $0.isBefore($1) }
    }

    /// Removes the next timer that is due at `now`, and returns its handler. nil if no timer is due, or if the next one
    /// has a higher id than `last`, because it was scheduled later.
    mutating func popDue(at now: Instant, upTo last: UInt64) -> (() -> Void)? {
        dropCancelled()
        guard let first = heap.first, first.deadline <= now, first.id <= last else { return nil }
        removeFirst()
        return handlers.removeValue(forKey: first.id)
    }

    private mutating func dropCancelled() {
        while let first = heap.first, handlers[first.id] == nil { removeFirst() }
    }

    private mutating func removeFirst() {
        heap.swapAt(0, heap.count - 1)
        heap.removeLast()
        var parent = 0
        while true {
            var first = parent
            for child in [2 * parent + 1, 2 * parent + 2] where child < heap.count && heap[child].isBefore(heap[first])
            {
                first = child
            }
            if first == parent { return }
            heap.swapAt(parent, first)
            parent = first
        }
    }

    private mutating func siftUp() {
        var child = heap.count - 1
        while child > 0, heap[child].isBefore(heap[(child - 1) / 2]) {
            heap.swapAt(child, (child - 1) / 2)
            child = (child - 1) / 2
        }
    }
}
