import HaulRedis

// Reads a queue in pages, so that a million jobs neither block Redis nor fill the memory.

extension Inspection {
    private static let pageSize = 1000
    /// How many elements one call reads. Each has up to 16 KiB, and Redis serves no other client while it copies them.
    private static let elementPageSize = 200

    /// The continuations (elements that Redis itself pushed, with only the id of a job) that wait in the queue or that
    /// a worker holds. Only their hash values are kept, to save memory.
    struct Continuations {
        private var hashes: Set<Int> = []

        mutating func add(_ element: [UInt8]) {
            if element.count < 300, element.starts(with: #"{"id":""#.utf8) { hashes.insert(element.hashValue) }
        }

        func contains(_ element: String) -> Bool { hashes.contains(Array(element.utf8).hashValue) }
    }

    func continuations() async throws(RedisError) -> Continuations {
        var known = Continuations()
        let deferred = try await lists(.deferredHost) + lists(.deferredKind) + lists(.deferredGroup)
        // An element may move from `jobs` to the list of its group, and back.
        for list in [queue.keys.jobs] + deferred + [queue.keys.jobs] + (try await heldLists()) {
            for start in stride(from: 0, to: Int.max, by: Self.elementPageSize) {
                // Pushes come at the left end and move the other elements to the right, so that reading from the left
                // skips none. A key of another type counts as empty.
                let range = Command("LRANGE", list, start, start + Self.elementPageSize - 1)
                let elements = try await queue.redis.pipeline([.command(range)])[0].array ?? []
                for element in elements { known.add(element.bytes ?? []) }
                guard elements.count == Self.elementPageSize else { break }
            }
        }
        return known
    }

    func heldLists() async throws(RedisError) -> [String] { try await lists(.held) }

    func lists(_ name: KeyName) async throws(RedisError) -> [String] {
        var lists: Set<String> = []
        try await forEachPageOfKeys(name) { names throws(RedisError) in lists.formUnion(names) }
        return lists.sorted()
    }

    /// Calls `body` with pages of the queue's keys. SCAN may return a key twice.
    func forEachPageOfKeys(
        _ name: KeyName? = nil, _ body: ([String]) async throws(RedisError) -> Void
    ) async throws(RedisError) {
        let pattern = Self.escaped(name.map { queue.keys[$0] } ?? queue.keys.prefix) + "*"
        try await scan({ Command("SCAN", $0, "MATCH", pattern, "COUNT", Self.pageSize) }, body)
    }

    /// Calls `body` with pages of the members of a sorted set. ZSCAN may return a member twice.
    func forEachPage(
        of index: String, _ body: ([String]) async throws(RedisError) -> Void
    ) async throws(RedisError) {
        try await scan({ Command("ZSCAN", index, $0, "COUNT", Self.pageSize) }) { pairs throws(RedisError) in
            try await body(stride(from: 0, to: pairs.count, by: 2).map { pairs[$0] })
        }
    }

    /// Calls `body` with the fields of a hash and their values. HSCAN may return a field twice.
    func forEachPair(
        of hash: String, _ body: (String, String) -> Void
    ) async throws(RedisError) {
        try await scan({ Command("HSCAN", hash, $0, "COUNT", Self.pageSize) }) { pairs throws(RedisError) in
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
    func idsWithoutHash(_ ids: Set<String>) async throws(RedisError) -> Set<String> {
        let ids = Array(ids)
        let replies = try await queue.redis.pipeline(ids.map { .command(Command("EXISTS", queue.keys.job($0))) })
        return Set(zip(ids, replies).filter { $1.int == 0 }.map(\.0))
    }

    /// Escapes the characters of a key that are special in a MATCH pattern. Braces are not special.
    private static func escaped(_ text: String) -> String {
        text.map { "*?[]\\".contains($0) ? "\\\($0)" : String($0) }.joined()
    }
}

extension Array {
    package func chunks(ofCount size: Int) -> [ArraySlice<Element>] {
        stride(from: 0, to: count, by: size).map { self[$0..<Swift.min($0 + size, count)] }
    }
}
