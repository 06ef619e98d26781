import CHaulHiredis

/// Parses replies from bytes that arrive in pieces of any size, with hiredis' reader.
struct ReplyReader: ~Copyable {
    private let reader: UnsafeMutablePointer<redisReader>
    private let functions = UnsafeMutablePointer<redisReplyObjectFunctions>.allocate(capacity: 1)
    private let builder = UnsafeMutablePointer<ReplyBuilder>.allocate(capacity: 1)

    init() {
        functions.initialize(to: ReplyBuilder.functions)
        builder.initialize(to: ReplyBuilder())
        reader = redisReaderCreateWithFunctions(functions)
        reader.pointee.privdata = UnsafeMutableRawPointer(builder)
    }

    deinit {
        redisReaderFree(reader)
        builder.deinitialize(count: 1)
        builder.deallocate()
        functions.deallocate()
    }

    /// Appends received bytes. Returns false if out of memory.
    func feed(_ bytes: UnsafeRawBufferPointer) -> Bool {
        redisReaderFeed(reader, bytes.baseAddress?.assumingMemoryBound(to: CChar.self), bytes.count) == REDIS_OK
    }

    /// The next complete reply. nil if there is none yet.
    /// - Throws: `.closed` if the bytes are not RESP2. The reader is unusable after that.
    func next() throws(RedisError) -> RedisValue? {
        var isComplete: UnsafeMutableRawPointer?
        let result = redisReaderGetReply(reader, &isComplete)
        if result == REDIS_OK, isComplete == nil { return nil }
        guard result == REDIS_OK, let value = builder.pointee.take() else {
            throw RedisError(.closed, "the server does not speak Redis' protocol")
        }
        return value
    }
}

/// Builds one reply from its parts, which hiredis hands over in the order of their bytes. So a part is copied once,
/// to where it stays.
private struct ReplyBuilder {
    /// An array that has fewer elements than it will have.
    private struct Level {
        var elements: [RedisValue] = []
        let count: Int
        var isComplete: Bool { elements.count == count }

        init(count: Int) {
            self.count = count
            // The server may announce any number.
            elements.reserveCapacity(min(count, 1 << 16))
        }
    }

    private var levels: [Level] = []
    private var reply: RedisValue?

    /// The functions that hiredis calls. Their results only need to differ from NULL.
    static var functions: redisReplyObjectFunctions {
        var functions = redisReplyObjectFunctions()
        functions.createString = { task, text, length in
            let bytes = UnsafeRawBufferPointer(start: text, count: length)
            let value: RedisValue =
                switch task!.pointee.type {
                case REDIS_REPLY_STRING: .bulk(Array(bytes))
                case REDIS_REPLY_STATUS: .status(String(decoding: bytes, as: UTF8.self))
                case REDIS_REPLY_ERROR: .error(RedisError(reply: String(decoding: bytes, as: UTF8.self)))
                default: .null
                }
            return ReplyBuilder.change(task) { $0.append(value) }
        }
        functions.createArray = { task, count in ReplyBuilder.change(task) { $0.begin(Int(count)) } }
        functions.createInteger = { task, number in ReplyBuilder.change(task) { $0.append(.integer(Int(number))) } }
        functions.createNil = { task in ReplyBuilder.change(task) { $0.append(.null) } }
        return functions
    }

    private static func change(
        _ task: UnsafePointer<redisReadTask>?, _ change: (inout ReplyBuilder) -> Void
    ) -> UnsafeMutableRawPointer? {
        let builder = task!.pointee.privdata!
        change(&builder.assumingMemoryBound(to: ReplyBuilder.self).pointee)
        return builder
    }

    private mutating func begin(_ count: Int) {
        if count > 0 { levels.append(Level(count: count)) } else { append(.array([])) }
    }

    private mutating func append(_ value: RedisValue) {
        guard let last = levels.indices.last else { return reply = value }
        levels[last].elements.append(value)
        // An array is complete with its last element.
        if levels[last].isComplete { append(.array(levels.removeLast().elements)) }
    }

    /// The complete reply. nil if it has a part of a type that RESP2 does not have, for which hiredis calls none of
    /// the functions.
    mutating func take() -> RedisValue? { levels.isEmpty ? reply.take() : nil }
}
