extension Task where Failure == Never {
    /// Its value, or nil when `deadline` has passed or the one who asks is cancelled; the task itself goes on.
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
