/// A FIFO queue: append at the end and remove from the front, both at amortized constant cost.
package struct Deque<Element> {
    /// The elements, from `head` on. The slots before `head` are nil, so that removed elements are released at once.
    private var storage: [Element?] = []
    private var head = 0

    package init() {}

    package var count: Int { storage.count - head }
    package var isEmpty: Bool { head == storage.count }

    /// The element at `distance` from the front; 0 is the front.
    package subscript(distance: Int) -> Element {
        get { storage[head + distance]! }
        _modify { yield &storage[head + distance]! }
    }

    package mutating func append(_ element: Element) { storage.append(element) }

    package mutating func popFirst() -> Element? {
        guard !isEmpty else { return nil }
        let element = storage[head].take()
        head += 1
        // Free the slots before `head` even if the queue never becomes empty. To wait until they are half of the
        // storage keeps the amortized cost of the move constant.
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
