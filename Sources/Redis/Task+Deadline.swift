extension Task where Failure == Never {
    /// The task's value. nil if `deadline` passes or the calling task is cancelled first. This task itself continues.
    package func value(until deadline: ContinuousClock.Instant) async -> Success? {
        let (stream, continuation) = AsyncStream<Success>.makeStream()
        Task<Void, Never> {
            continuation.yield(await value)
            continuation.finish()
        }
        let timer = Task<Void, Never> {
            try? await Task<Never, Never>.sleep(until: deadline, clock: .continuous)
            continuation.finish()
        }
        defer { timer.cancel() }
        var values = stream.makeAsyncIterator()
        return await values.next()
    }
}
