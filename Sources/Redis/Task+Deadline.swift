extension Task where Failure == Never {
    /// The task's value. nil if `deadline` passes or the calling task is cancelled first. This task itself continues.
    func value(until deadline: ContinuousClock.Instant) async -> Success? {
        let (stream, feed) = AsyncStream<Success>.makeStream()
        Task<Void, Never> {
            feed.yield(await value)
            feed.finish()
        }
        let clock = Task<Void, Never> {
            try? await Task<Never, Never>.sleep(until: deadline, clock: .continuous)
            feed.finish()
        }
        defer { clock.cancel() }
        var values = stream.makeAsyncIterator()
        return await values.next()
    }
}
