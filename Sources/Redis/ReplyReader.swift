import CHaulHiredis

/// Replies out of bytes as they arrive, cut anywhere: hiredis' reader.
struct ReplyReader: ~Copyable {
    private let reader: UnsafeMutablePointer<redisReader> = redisReaderCreate()

    deinit { redisReaderFree(reader) }

    /// Takes bytes; false if there is no memory for them.
    func feed(_ bytes: UnsafeRawBufferPointer) -> Bool {
        redisReaderFeed(reader, bytes.baseAddress?.assumingMemoryBound(to: CChar.self), bytes.count) == REDIS_OK
    }

    /// The next whole reply, nil if there is none yet.
    /// - Throws: `.closed` if the bytes are no replies; nothing more can be read then.
    func next() throws(RedisError) -> RedisValue? {
        var reply: UnsafeMutableRawPointer?
        guard redisReaderGetReply(reader, &reply) == REDIS_OK else {
            throw RedisError(.closed, "what answers does not speak Redis' protocol")
        }
        guard let reply else { return nil }
        defer { freeReplyObject(reply) }
        return RedisValue(reply.assumingMemoryBound(to: redisReply.self).pointee)
    }
}
