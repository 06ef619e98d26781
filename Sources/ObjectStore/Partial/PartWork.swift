/// The uploads of parts and tails that a partial file has in progress.
struct PartWork: Sendable {
    private var active: Set<Int> = []
    private var running: [Int: Task<Void, Never>] = [:]
    /// The number of the work that was begun last.
    private(set) var last = 0
    private var waiting: [CheckedContinuation<Void, Never>] = []

    var isAny: Bool { !active.isEmpty }
    var tasks: [Task<Void, Never>] { Array(running.values) }

    /// Whether any work up to `number` is in progress.
    func isAny(upTo number: Int) -> Bool { active.contains { $0 <= number } }

    /// Returns the number of work that is about to begin.
    mutating func begin() -> Int {
        last += 1
        active.insert(last)
        return last
    }

    /// Stores the work's task for its cancellation, unless the work has ended already.
    mutating func record(_ task: Task<Void, Never>, _ number: Int) {
        if active.contains(number) { running[number] = task }
    }

    /// Records the end of work. Returns the waiting continuations if nothing is in progress any more.
    mutating func end(_ number: Int) -> [CheckedContinuation<Void, Never>] {
        running[number] = nil
        active.remove(number)
        guard active.isEmpty else { return [] }
        defer { waiting = [] }
        return waiting
    }

    /// Stores a continuation until nothing is in progress; false if nothing is.
    mutating func wait(_ continuation: CheckedContinuation<Void, Never>) -> Bool {
        guard isAny else { return false }
        waiting.append(continuation)
        return true
    }
}
