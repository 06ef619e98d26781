import CHaulHiredis

/// Parses replies from bytes that arrive in pieces of any size, with hiredis' reader.
struct ReplyReader: ~Copyable {
    private let reader: UnsafeMutablePointer<redisReader> = redisReaderCreate()

    deinit { redisReaderFree(reader) }

    /// Appends received bytes. Returns false if out of memory.
    func feed(_ bytes: UnsafeRawBufferPointer) -> Bool {
        redisReaderFeed(reader, bytes.baseAddress?.assumingMemoryBound(to: CChar.self), bytes.count) == REDIS_OK
    }

    /// The next complete reply. nil if there is none yet.
    /// - Throws: `.closed` if the bytes are not RESP. The reader is unusable after that.
    func next() throws(RedisError) -> RedisValue? {
        var reply: UnsafeMutableRawPointer?
        guard redisReaderGetReply(reader, &reply) == REDIS_OK else {
            throw RedisError(.closed, "the server does not speak Redis' protocol")
        }
        guard let reply else { return nil }
        defer { freeReplyObject(reply) }
        return RedisValue(reply.assumingMemoryBound(to: redisReply.self).pointee)
    }
}
