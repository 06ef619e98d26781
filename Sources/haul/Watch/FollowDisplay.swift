import HaulContract

/// What shows how jobs go that are followed.
protocol FollowDisplay {
    /// How often it wants to be drawn; nil if it draws by itself.
    var interval: Duration? { get }
    mutating func show(_ event: Event)
    /// A job has ended, which no event told; `line` says how.
    mutating func end(_ line: String, id: String)
    mutating func draw()
    mutating func finish()
    /// Jobs of which it would like to know the names.
    var unnamed: [String] { get }
    mutating func name(_ id: String, _ name: String)
    /// How many jobs run in the whole queue, where all of them are followed.
    mutating func note(running count: Int)
}

extension FollowDisplay {
    var interval: Duration? { nil }
    var unnamed: [String] { [] }
    mutating func draw() {}
    mutating func name(_ id: String, _ name: String) {}
    mutating func note(running count: Int) {}
}

extension ProgressDisplay: FollowDisplay {}
