import HaulContract
package import HaulRedis

/// What waits in line, for who looks for a few jobs among very many.
package struct WaitingPage: Sendable {
    /// How many elements were looked at; 0 at the end of the line.
    package var read: Int
    /// How many elements the next call may look at, as long as these ones were.
    package var next = Queue.leastInLine
    /// The jobs that may be meant, each with its place among those elements.
    package var jobs: [(place: Int, job: ListedJob)] = []

    package init(read: Int = 0) { self.read = read }
}

extension Queue {
    /// So many elements are looked at first, and so many at most: as many as have `bytesOfPage` together.
    package static let leastInLine = 500
    private static let mostInLine = 4000
    private static let bytesOfPage = 512 << 10
    /// A call reads so many of them, and asks for so many hashes: none keeps Redis for long.
    private static let (elementsOfCall, hashesOfCall) = (500, 50)

    /// The jobs in line that may be meant, without the first `start` elements, of at most `limit`.
    ///
    /// To read an element as a job costs many times what it costs to look at its bytes. So an element is read only if its bytes
    /// may match, or if its job or a neighbour's has a hash: that one may match though its element does not.
    ///
    /// - Parameter isPossible: Whether a job of which nothing is known but these bytes may match. It may say yes too often.
    package func waiting(
        from start: Int, limit: Int, that isPossible: @escaping @Sendable ([UInt8]) -> Bool
    ) async throws(RedisError) -> WaitingPage {
        // Of many, one half is looked at while the other is read.
        let half = limit > Self.leastInLine ? limit / 2 : limit
        async let ahead = half < limit ? result(from: start + half, limit: limit - half, that: isPossible) : nil
        var page = try await piece(from: start, limit: half, that: isPossible)
        guard let rest = try await ahead?.get(), page.read == half else { return page }
        page.jobs += rest.jobs.map { ($0.place + half, $0.job) }
        page.read += rest.read
        return page
    }

    private func result(
        from start: Int, limit: Int, that isPossible: @Sendable ([UInt8]) -> Bool
    ) async -> Result<WaitingPage, RedisError> {
        do throws(RedisError) { return .success(try await piece(from: start, limit: limit, that: isPossible)) } catch {
            return .failure(error)
        }
    }

    private func piece(
        from start: Int, limit: Int, that isPossible: @Sendable ([UInt8]) -> Bool
    ) async throws(RedisError) -> WaitingPage {
        let (elements, next) = try await line(from: start, limit: limit)
        let ids = elements.map(ElementID.quick)
        let known = try await known(ids)
        var page = WaitingPage(read: elements.count)
        page.next = next
        for (place, element) in elements.enumerated()
        where known[place / Self.hashesOfCall] || ids[place] == nil || isPossible(element) {
            if let job = Self.listed(element) { page.jobs.append((place, job)) }
        }
        return page
    }

    /// The job of this id, if an element in line names it. All elements' bytes are looked at, and few are read.
    package func waiting(for id: String) async throws(RedisError) -> ListedJob? {
        let name = Array("\"\(id)\"".utf8)
        // An element without an id has one of this form. To know it, it must be read.
        let mayFollow = id.utf8.count == 16 && id.utf8.allSatisfy { 0x30...0x39 ~= $0 || 0x61...0x66 ~= $0 }
        var (start, limit) = (0, Self.leastInLine)
        while !Task.isCancelled {
            let (elements, next) = try await line(from: start, limit: limit)
            for element in elements {
                let isMeant =
                    Self.contains(element, name) || Self.contains(element, [UInt8(ascii: "\\")])
                    || mayFollow && ElementID.quick(element) == nil
                if isMeant, let job = Self.listed(element), job.id == id { return job }
            }
            guard elements.count == limit else { break }
            (start, limit) = (start + limit, next)
        }
        return nil
    }

    /// A piece of the line in the order in which its turn comes, and how many elements the next piece may have.
    private func line(from start: Int, limit: Int) async throws(RedisError) -> (elements: [[UInt8]], next: Int) {
        // In one round trip: nothing is taken out of the line between these calls.
        let calls = stride(from: start, to: start + limit, by: Self.elementsOfCall).map {
            Call.command(
                Command("LRANGE", keys.jobs, -min($0 + Self.elementsOfCall, start + limit), -$0 - 1))
        }
        var elements: [[UInt8]] = []
        elements.reserveCapacity(limit)
        var bytes = 0
        for reply in try await redis.pipeline(calls) {
            for value in (try reply.get().array ?? []).reversed() {
                let element = value.bytes ?? []
                elements.append(element)
                bytes += element.count
            }
        }
        let length = max(1, bytes / max(1, elements.count))
        return (elements, min(max(Self.bytesOfPage / length, 10), Self.mostInLine))
    }

    private static func contains(_ element: [UInt8], _ part: [UInt8]) -> Bool {
        guard element.count >= part.count, let first = part.first else { return false }
        return element.withUnsafeBufferPointer { element in
            (0...element.count - part.count).contains { start in
                element[start] == first && element[start..<start + part.count].elementsEqual(part)
            }
        }
    }

    /// Of each `hashesOfCall` of these jobs, whether any has a hash. Who may not ask that takes it for so.
    private func known(_ ids: [String?]) async throws(RedisError) -> [Bool] {
        let prefix = keys.job("")
        let groups = ids.pages(of: Self.hashesOfCall).map { $0.compactMap { $0.map { prefix + $0 } } }
        let asked = groups.filter { !$0.isEmpty }
        var replies = try await redis.pipeline(
            asked.map { .command(Command(arguments: ["EXISTS"] + $0)) })[...]
        var known: [Bool] = []
        for group in groups {
            guard !group.isEmpty, let reply = replies.popFirst() else {
                known.append(false)
                continue
            }
            do throws(RedisError) { known.append(try reply.get().int != 0) } catch {
                guard error.code == .noPermission else { throw error }
                known.append(true)
            }
        }
        return known
    }
}

/// The id that an element gives, found without reading the element.
enum ElementID {
    /// The text of the one member `id` of an object without any escape; nil where only reading tells it.
    static func quick(_ element: [UInt8]) -> String? {
        element.withUnsafeBufferPointer { bytes in
            var depth = 0
            var found: Range<Int>?
            var place = 0
            while place < bytes.count {
                switch bytes[place] {
                case UInt8(ascii: "\\"): return nil
                case UInt8(ascii: "{"), UInt8(ascii: "["): depth += 1
                case UInt8(ascii: "}"), UInt8(ascii: "]"): depth -= 1
                case UInt8(ascii: "\""):
                    guard let text = string(bytes, at: place) else { return nil }
                    place = text.upperBound
                    if depth == 1, let value = value(ofIDAt: text, bytes) {
                        // Which of two counts is the reader's to say.
                        if found != nil { return nil }
                        found = value
                        place = value.upperBound
                    }
                default: break
                }
                place += 1
            }
            return found.map { String(decoding: bytes[$0], as: UTF8.self) }
        }
    }

    /// The bytes between the quotes, of which the first is at `quote`; nil if the text has an escape or no end.
    private static func string(_ bytes: UnsafeBufferPointer<UInt8>, at quote: Int) -> Range<Int>? {
        var end = quote + 1
        while end < bytes.count, bytes[end] != UInt8(ascii: "\"") {
            if bytes[end] == UInt8(ascii: "\\") { return nil }
            end += 1
        }
        return end < bytes.count ? quote + 1..<end : nil
    }

    /// The bytes of the text that follows, if `name` is the name `id` of a member.
    private static func value(ofIDAt name: Range<Int>, _ bytes: UnsafeBufferPointer<UInt8>) -> Range<Int>? {
        guard name.count == 2, bytes[name.lowerBound] == UInt8(ascii: "i"),
            bytes[name.lowerBound + 1] == UInt8(ascii: "d")
        else { return nil }
        var place = name.upperBound + 1
        func skipSpace() {
            while place < bytes.count, [0x20, 0x09, 0x0a, 0x0d].contains(bytes[place]) { place += 1 }
        }
        skipSpace()
        guard place < bytes.count, bytes[place] == UInt8(ascii: ":") else { return nil }
        place += 1
        skipSpace()
        guard place < bytes.count, bytes[place] == UInt8(ascii: "\"") else { return nil }
        return string(bytes, at: place)
    }
}
