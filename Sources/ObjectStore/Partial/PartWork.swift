/// What a partial file has under way: uploads of parts and tails.
struct PartWork: Sendable {
    private var active: Set<Int> = []
    private var running: [Int: Task<Void, Never>] = [:]
    /// The number of what was begun last.
    private(set) var last = 0
    private var waiting: [CheckedContinuation<Void, Never>] = []

    var isAny: Bool { !active.isEmpty }
    var tasks: [Task<Void, Never>] { Array(running.values) }

    /// Whether any of those is under way that were begun when `number` was the last.
    func isAny(upTo number: Int) -> Bool { active.contains { $0 <= number } }

    /// A number for what is about to begin.
    mutating func begin() -> Int {
        last += 1
        active.insert(last)
        return last
    }

    /// Its task, so that it can be cancelled. It may have ended already.
    mutating func note(_ task: Task<Void, Never>, _ number: Int) {
        if active.contains(number) { running[number] = task }
    }

    /// Returns who waited for the last.
    mutating func end(_ number: Int) -> [CheckedContinuation<Void, Never>] {
        running[number] = nil
        active.remove(number)
        guard active.isEmpty else { return [] }
        defer { waiting = [] }
        return waiting
    }

    /// Waits until nothing is under way; false if nothing is.
    mutating func wait(_ continuation: CheckedContinuation<Void, Never>) -> Bool {
        guard isAny else { return false }
        waiting.append(continuation)
        return true
    }
}
