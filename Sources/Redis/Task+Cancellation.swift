extension Task where Failure == Never {
    /// Its value, or nil as soon as the one who asks is cancelled; the task itself goes on.
    var valueUnlessCancelled: Success? {
        get async {
            let (stream, feed) = AsyncStream<Success>.makeStream()
            Task<Void, Never> {
                feed.yield(await value)
                feed.finish()
            }
            var values = stream.makeAsyncIterator()
            return await values.next()
        }
    }
}
