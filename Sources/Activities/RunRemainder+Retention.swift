package import HaulContract

/// What a run keeps that ended before its job was done.
package enum Retention: Sendable {
    /// Everything was removed, because no later run could have continued.
    case nothing
    /// The last checkpoint; nil if there is nothing new.
    case checkpoint(ResumePoint?)
}

extension RunRemainder {
    /// Keeps all that has arrived if a later run can continue, and removes everything if none can.
    ///
    /// - Parameter limit: Returns when the time for this has ended. It counts only after the caller was cancelled.
    package func retain(until limit: @escaping @Sendable () async -> Void) async -> Retention {
        await outlastingCancellation(until: limit) {
            if await discardUseless() { return .nothing }
            return .checkpoint(await finalCheckpoint())
        }
    }
}

/// Runs `body` in a task of its own, which goes on although the caller was cancelled, until `limit` returns.
///
/// The tasks of a process that ends are cancelled, and each request of a cancelled task ends at once. So all that a run
/// still has to write to a store, or to remove from it, must run in such a task.
package func outlastingCancellation<T: Sendable>(
    until limit: @escaping @Sendable () async -> Void, _ body: @escaping @Sendable () async -> T
) async -> T {
    let task = Task { await body() }
    return await withTaskCancellationHandler {
        await task.value
    } onCancel: {
        Task {
            await limit()
            task.cancel()
        }
    }
}
