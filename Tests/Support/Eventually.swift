/// Thrown when a condition did not come true in time.
package struct TimedOut: Error, CustomStringConvertible {
    package let description: String
}

/// Waits until `condition` is true, and checks it every `interval`. So a test waits for the state that it means, and
/// never for an amount of time. The limit is far beyond what a busy machine needs, because only a failure takes so
/// long.
///
/// - Throws: `TimedOut` after `limit`, and what `condition` throws.
package func eventually(
    _ what: String = "the condition", within limit: Duration = .seconds(60),
    every interval: Duration = .milliseconds(5),
    _ condition: () async throws -> Bool
) async throws {
    let deadline = ContinuousClock.now + limit
    while try await !condition() {
        guard ContinuousClock.now < deadline else {
            throw TimedOut(description: "\(what) did not come true in \(limit)")
        }
        try await Task.sleep(for: interval)
    }
}
