/// A queue: elements go in at the end and come out at the front, at constant cost on average.
package struct Deque<Element> {
    /// From `head` on what is in the queue; before it nil, so that nothing that an element held outlives it here.
    private var storage: [Element?] = []
    private var head = 0

    package init() {}

    package var count: Int { storage.count - head }
    package var isEmpty: Bool { head == storage.count }

    /// The element at a distance from the front.
    package subscript(distance: Int) -> Element {
        get { storage[head + distance]! }
        _modify { yield &storage[head + distance]! }
    }

    package mutating func append(_ element: Element) { storage.append(element) }

    package mutating func popFirst() -> Element? {
        guard !isEmpty else { return nil }
        let element = storage[head].take()
        head += 1
        // Also under a backlog that never runs empty; half at a time, so that the copying stays cheap.
        if isEmpty {
            storage.removeAll(keepingCapacity: true)
            head = 0
        } else if head >= max(64, storage.count / 2) {
            storage.removeFirst(head)
            head = 0
        }
        return element
    }
}

extension Deque: Sendable where Element: Sendable {}
