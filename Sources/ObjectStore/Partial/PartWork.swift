/// What a partial file has under way: uploads of parts and tails.
struct PartWork: Sendable {
    private var running: [Int: Task<Void, Never>] = [:]
    private var begun = 0
    private var count = 0
    private var waiting: [CheckedContinuation<Void, Never>] = []

    var isAny: Bool { count > 0 }
    var tasks: [Task<Void, Never>] { Array(running.values) }

    /// A number for what is about to begin.
    mutating func begin() -> Int {
        begun += 1
        count += 1
        return begun
    }

    /// Its task, so that it can be cancelled.
    mutating func note(_ task: Task<Void, Never>, _ number: Int) { running[number] = task }

    /// Returns who waited for the last.
    mutating func end(_ number: Int) -> [CheckedContinuation<Void, Never>] {
        running[number] = nil
        count -= 1
        guard count == 0 else { return [] }
        defer { waiting = [] }
        return waiting
    }

    /// Waits until nothing is under way; false if nothing is.
    mutating func wait(_ continuation: CheckedContinuation<Void, Never>) -> Bool {
        guard count > 0 else { return false }
        waiting.append(continuation)
        return true
    }
}
