import HaulRedis

// Reads a queue in pages, so that a million jobs neither block Redis nor fill the memory.

extension Inspection {
    private static let page = 1000
    /// How many elements one call reads, at most 16 KiB each: Redis serves no other client while it copies them.
    private static let pageOfElements = 200

    /// The continuations that Redis has made, in the queue or held by a worker. Only their hash values are kept, to
    /// save memory.
    struct Line {
        private var hashes: Set<Int> = []

        mutating func add(_ element: [UInt8]) {
            if element.count < 300, element.starts(with: #"{"id":""#.utf8) { hashes.insert(element.hashValue) }
        }

        func holds(_ element: String) -> Bool { hashes.contains(Array(element.utf8).hashValue) }
    }

    func line() async throws(RedisError) -> Line {
        var line = Line()
        let deferred = try await lists(.deferredHost) + lists(.deferredKind)
        for list in [queue.keys.jobs] + deferred + (try await heldLists()) {
            for start in stride(from: 0, to: Int.max, by: Self.pageOfElements) {
                // From the left end: pushes during the reading move elements to the right, so none is skipped. A key of
                // another type holds nothing.
                let range = Command("LRANGE", list, start, start + Self.pageOfElements - 1)
                let elements = try await queue.redis.pipeline([.command(range)])[0].array ?? []
                for element in elements { line.add(element.bytes ?? []) }
                guard elements.count == Self.pageOfElements else { break }
            }
        }
        return line
    }

    func heldLists() async throws(RedisError) -> [String] { try await lists(.held) }

    func lists(_ name: KeyName) async throws(RedisError) -> [String] {
        var lists: Set<String> = []
        try await forEachPageOfKeys(name) { names throws(RedisError) in lists.formUnion(names) }
        return lists.sorted()
    }

    /// Calls `body` with pages of the queue's keys. A key may come twice.
    func forEachPageOfKeys(
        _ name: KeyName? = nil, _ body: ([String]) async throws(RedisError) -> Void
    ) async throws(RedisError) {
        let pattern = Self.escaped(name.map { queue.keys[$0] } ?? queue.keys.prefix) + "*"
        try await scan({ Command("SCAN", $0, "MATCH", pattern, "COUNT", Self.page) }, body)
    }

    /// Calls `body` with pages of the members of a sorted set. A member may come twice.
    func forEachPage(
        of index: String, _ body: ([String]) async throws(RedisError) -> Void
    ) async throws(RedisError) {
        try await scan({ Command("ZSCAN", index, $0, "COUNT", Self.page) }) { pairs throws(RedisError) in
            try await body(stride(from: 0, to: pairs.count, by: 2).map { pairs[$0] })
        }
    }

    /// Calls `body` with the fields of a hash and their values. A field may come twice.
    func forEachPair(
        of hash: String, _ body: (String, String) -> Void
    ) async throws(RedisError) {
        try await scan({ Command("HSCAN", hash, $0, "COUNT", Self.page) }) { pairs throws(RedisError) in
            for index in stride(from: 0, to: pairs.count - 1, by: 2) { body(pairs[index], pairs[index + 1]) }
        }
    }

    private func scan(
        _ command: (String) -> Command, _ body: ([String]) async throws(RedisError) -> Void
    ) async throws(RedisError) {
        var cursor = "0"
        repeat {
            let reply = try await queue.redis.send(command(cursor))
            guard let parts = reply.array, parts.count == 2, let next = parts[0].string else {
                throw RedisError(.reply, "a scan returned \(reply)")
            }
            cursor = next
            try await body((parts[1].array ?? []).compactMap(\.string))
        } while cursor != "0"
    }

    /// The ids whose jobs have no hash.
    func withoutJob(_ ids: Set<String>) async throws(RedisError) -> Set<String> {
        let ids = Array(ids)
        let replies = try await queue.redis.pipeline(ids.map { .command(Command("EXISTS", queue.keys.job($0))) })
        return Set(zip(ids, replies).filter { $1.int == 0 }.map(\.0))
    }

    /// Escapes the characters of a key that mean something in a pattern. Braces mean nothing.
    private static func escaped(_ text: String) -> String {
        text.map { "*?[]\\".contains($0) ? "\\\($0)" : String($0) }.joined()
    }
}

extension Array {
    package func pages(of size: Int) -> [ArraySlice<Element>] {
        stride(from: 0, to: count, by: size).map { self[$0..<Swift.min($0 + size, count)] }
    }
}
