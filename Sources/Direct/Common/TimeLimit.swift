import HaulContract

/// The time that a person gives to one transfer with `--max-time`.
enum TimeLimit {
    /// Runs `body`, and cancels it after `seconds`.
    ///
    /// - Parameters:
    ///   - what: What has to be done in time, for the message.
    ///   - advice: What follows the message.
    /// - Returns: The value, and the failure to report if `body` was cancelled.
    static func run<T: Sendable>(
        _ seconds: Double?, _ what: String, advice: String = "", _ body: @escaping @Sendable () async -> T
    ) async -> (value: T, failure: Failure?) {
        guard let seconds else { return (await body(), nil) }
        return await withTaskGroup(of: T?.self) { group in
            group.addTask { await body() }
            group.addTask {
                try? await Task.sleep(for: .seconds(seconds))
                return nil
            }
            var failure: Failure?
            while let ended = await group.next() {
                group.cancelAll()
                if let value = ended { return (value, failure) }
                // If the whole command is cancelled, the pause ends early.
                if Task.isCancelled { continue }
                let time = seconds == seconds.rounded() ? "\(Int(seconds))" : "\(seconds)"
                failure = Failure(.deadline, "\(what) was not done within the \(time) s of --max-time\(advice)")
            }
            fatalError("the group has ended without its first task")
        }
    }
}
