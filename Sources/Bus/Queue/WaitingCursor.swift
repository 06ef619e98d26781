package import HaulRedis

/// A way through all elements that wait, which leaves out none that waits all the time, wherever it is moved. Some come
/// twice.
///
/// Elements enter and leave lists at their ends only. Within a list positions count from the end at which pushes arrive:
/// a claim moves no element, and a push moves elements to greater positions. But an element that is moved from a list
/// that is still to be read to one that was read is passed over: a limit defers it, or lets it return. So further
/// passes read the lists that have appeared, and the ends of all others, until one of them finds no element that was not
/// read before. From a list that waits for a host, a kind or a limit, a recheck removes elements that are done, wherever
/// they are (Lua/tick/rechecks.lua). So such a list is read twice, and again as long as something new is found in it.
package struct WaitingCursor: Sendable {
    /// How many elements of each end the next pass reads. A pass that finds others there is followed by a longer one.
    private static let minDepth = 500
    private static let growth = 8
    /// A queue that is claimed as fast as it is read has others in each pass.
    private static let maxPasses = 8

    private let queue: Queue
    private let deferredOnly: Bool
    /// What the present pass reads; nil before the first one.
    private var lists: WaitingLists?
    /// Where the next page begins.
    private var position = 0
    private var passes = 0
    private var read = ReadElements()
    /// How many elements of each end of a list the last pass has read, by the keys of all lists that were read. 0 for a
    /// list that it has read for the first time.
    private var depths: [String: Int] = [:]
    /// The keys of the lists in which this pass has found elements that no pass had read.
    private var unread: Set<String> = []

    /// Begins at the first element.
    ///
    /// - Parameter deferredOnly: Leaves out elements that only wait for their turn.
    package init(_ queue: Queue, deferredOnly: Bool = false) { (self.queue, self.deferredOnly) = (queue, deferredOnly) }

    /// About how many elements the present pass reads.
    var count: Int { lists?.count ?? 0 }

    /// The jobs of the next elements, at most `limit`. nil at the end.
    package mutating func next(limit: Int) async throws(RedisError) -> [ListedJob]? {
        let all: Queue.Search = { elements in
            elements.enumerated().map { (position: $0.offset, job: Queue.listed($0.element)) }
        }
        return try await next(limit: limit, all)?.jobs.map(\.job)
    }

    /// The jobs that may match among the next elements, at most `limit`: `Queue.waiting(in:from:limit:that:)`. nil at the
    /// end.
    package mutating func next(
        limit: Int, that isPossible: @escaping @Sendable ([UInt8]) -> Bool
    ) async throws(RedisError) -> WaitingPage? {
        try await next(limit: limit, queue.search(isPossible))
    }

    /// The results of `search` for the next elements, at most `limit`. nil at the end.
    ///
    /// - Parameter piece: See `Queue.page`.
    mutating func next(
        limit: Int, inPiecesOf piece: Int? = nil, _ search: @escaping Queue.Search
    ) async throws(RedisError) -> WaitingPage? {
        guard let lists = try await unreadLists() else { return nil }
        let page = try await queue.page(in: lists, from: position, limit: limit, inPiecesOf: piece, search)
        position += page.read
        for (list, digests) in page.digests where read.insert(digests) { unread.insert(list) }
        return page
    }

    /// The lists of the present pass, or of the next one if all of them were read. nil at the end.
    private mutating func unreadLists() async throws(RedisError) -> WaitingLists? {
        while true {
            if let lists, position < lists.count { return lists }
            position = 0
            if var past = lists {
                // Pushes have moved elements beyond the lengths that the lists had.
                past.lists.removeAll { !$0.reachesEnd }
                let rest = try await queue.remainder(of: past)
                lists = rest
                if rest.count > 0 { continue }
                guard passes == 1 || !unread.isEmpty, passes < Self.maxPasses else { return nil }
            }
            try await beginPass()
            if count == 0 { return nil }
        }
    }

    private mutating func beginPass() async throws(RedisError) {
        var next = try await queue.waitingLists()
        if deferredOnly { next = next.deferred }
        if passes == 0 { read = ReadElements(of: next.count) }
        next.order = .pushes
        next.lists = next.lists.flatMap { list in
            if list.reason != nil, passes == 1 || unread.contains(list.key) {
                depths[list.key] = 0
                return [list]
            }
            let depth = depths[list.key].map {
                unread.contains(list.key) ? max(Self.minDepth, $0 * Self.growth) : Self.minDepth
            }
            depths[list.key] = depth ?? 0
            return depth.map(list.ends) ?? [list]
        }
        lists = next
        unread = []
        passes += 1
    }
}

extension WaitingLists.List {
    /// The parts in which elements may have arrived since the list was read: both ends, and of the queue the one that is
    /// claimed first, because at the other one only new pushes arrive.
    fileprivate func ends(_ depth: Int) -> [WaitingLists.List] {
        var (first, last) = (self, self)
        last.skipped = max(0, length - depth)
        last.length = length - last.skipped
        if location == .queue { return [last] }
        guard last.skipped > depth else { return [self] }
        first.length = depth
        first.reachesEnd = false
        return [first, last]
    }
}

/// Which elements were read, by their digests. It has a fixed size, so that a few elements count as read that were not.
private struct ReadElements: Sendable {
    private static let maxBits = 1 << 27
    private var words: [UInt64]

    /// - Parameter count: About how many elements will be inserted.
    init(of count: Int = 0) {
        var bits = 1 << 12
        while bits < Self.maxBits, bits / 64 < count { bits *= 2 }
        words = [UInt64](repeating: 0, count: bits / 64)
    }

    /// Returns whether any of the elements is new.
    mutating func insert(_ digests: [Int]) -> Bool {
        var areNew = false
        for digest in digests {
            let bit = digest & (words.count * 64 - 1)
            let mask: UInt64 = 1 << UInt64(bit & 63)
            if words[bit >> 6] & mask == 0 { areNew = true }
            words[bit >> 6] |= mask
        }
        return areNew
    }
}
