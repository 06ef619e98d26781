import HaulContract
package import HaulRedis

/// A page of the elements that wait, from a search for a few jobs among very many.
package struct WaitingPage: Sendable {
    /// How many elements were read; 0 at the end.
    package var read: Int
    /// How many elements the next call should read, if they are as long as these.
    package var next = Queue.minPageOfElements
    /// The jobs that may match, each with the index of its element in the page.
    package var jobs: [(position: Int, job: ListedJob)] = []
    /// A digest of each element that was read, and the keys of their lists. A list may come more than once.
    var digests: [(list: String, ofElements: [Int])] = []

    package init(read: Int = 0) { self.read = read }
}

extension Queue {
    /// The first page has so many elements, and no page has more than `maxPageOfElements`. Their number is chosen so
    /// that they have about `bytesOfPage` bytes together.
    package static let minPageOfElements = 500
    private static let maxPageOfElements = 16_000
    private static let bytesOfPage = 2 << 20
    /// A page is read in so many pieces at once: Redis reads one piece while another is searched.
    static let piecesOfPage = 16
    /// How many hashes one call asks for, so that it occupies Redis only briefly.
    private static let hashesOfCall = 50

    /// The waiting jobs that may match, among at most `limit` elements after the first `start`.
    ///
    /// To read an element as a job costs many times as much as to search its bytes. So an element is read only if its
    /// bytes may match, or if its job or one in the same group has a hash. A known job may match though its element
    /// does not.
    ///
    /// - Parameter isPossible: Whether an unknown job with these bytes may match. It may return true too often.
    package func waiting(
        in lists: WaitingLists, from start: Int, limit: Int, that isPossible: @escaping @Sendable ([UInt8]) -> Bool
    ) async throws(RedisError) -> WaitingPage {
        try await page(in: lists, from: start, limit: limit, search(isPossible))
    }

    /// A search for the elements that may match.
    func search(_ isPossible: @escaping @Sendable ([UInt8]) -> Bool) -> Search {
        { elements throws(RedisError) in
            let ids = elements.map { ElementID.quick($0.bytes) }
            let known = try await known(ids)
            return elements.enumerated().compactMap { position, element in
                guard known[position / Self.hashesOfCall] || ids[position] == nil || isPossible(element.bytes) else {
                    return nil
                }
                return (position, Self.listed(element))
            }
        }
    }

    /// The jobs of `ids` that have a waiting element that does not repeat an earlier one. Searches the bytes of all elements, and reads
    /// few of them. A job that waits all the time is found, even if others are claimed meanwhile.
    ///
    /// - Parameter deferredOnly: Leaves out elements that only wait for their turn.
    package func waiting(
        for ids: Set<String>, deferredOnly: Bool = false
    ) async throws(RedisError) -> [String: ListedJob] {
        let name = ids.count == 1 ? ids.first.map { Needle("\"\($0)\"") } : nil
        // The id of an element that names none has this form. Only reading such an element shows its id.
        let mayFollow = ids.contains { id in
            id.utf8.count == 16 && id.utf8.allSatisfy { 0x30...0x39 ~= $0 || 0x61...0x66 ~= $0 }
        }
        @Sendable func isMeant(_ element: [UInt8]) -> Bool {
            if let name {
                if name.isIn(element) || element.contains(UInt8(ascii: "\\")) { return true }
                guard mayFollow else { return false }
            }
            guard let id = ElementID.quick(element) else { return true }
            // What is not JSON has no id, whatever it seems to name.
            return ids.contains(id) || mayFollow && ids.contains(Self.digestID(of: element))
        }
        var found: [String: ListedJob] = [:]
        let search: Search = { elements in
            elements.enumerated().compactMap { position, element in
                guard isMeant(element.bytes) else { return nil }
                let job = Self.listed(element)
                return ids.contains(job.id) ? (position, job) : nil
            }
        }
        var (cursor, limit) = (WaitingCursor(self, deferredOnly: deferredOnly), Self.minPageOfElements)
        while !Task.isCancelled, found.count < ids.count, let page = try await cursor.next(limit: limit, search) {
            for job in try await effective(page.jobs.map(\.job)) { found[job.id] = found[job.id] ?? job }
            limit = page.next
        }
        return found
    }

    /// Those of some jobs with waiting elements that are queued, or begin with these elements.
    package func effective(_ jobs: [ListedJob]) async throws(RedisError) -> [ListedJob] {
        guard !jobs.isEmpty else { return [] }
        let hashes = try await fields(ListedJob.decisiveFields, of: jobs.map(\.id))
        return zip(jobs, hashes).filter { JobState.queued.describing($1, $0) != nil }.map(\.0)
    }

    /// The job of this id, if an element for it waits anywhere; nil otherwise.
    package func waiting(for id: String) async throws(RedisError) -> ListedJob? {
        try await waiting(for: [id])[id]
    }

    /// Finds jobs among the elements of a piece, and returns each with the index of its element.
    typealias Search =
        @Sendable ([WaitingElement]) async throws(RedisError) -> [(position: Int, job: ListedJob)]

    /// The results of `search` for a page of the lists, in their order.
    ///
    /// - Parameter piece: How many elements one call reads; nil for a part of the page. With it a page may be as long as
    ///   the lists: no more than `piecesOfPage` calls wait for Redis at once, and only what is found is kept.
    func page(
        in lists: WaitingLists, from start: Int, limit: Int, inPiecesOf piece: Int? = nil, _ search: @escaping Search
    ) async throws(RedisError) -> WaitingPage {
        let limit = max(0, min(limit, lists.count - start))
        let length = max(Self.hashesOfCall, piece ?? limit / Self.piecesOfPage)
        let starts = stride(from: 0, to: limit, by: length)
        let pieces = await withTaskGroup(of: Piece.self) { group in
            var rest = starts.makeIterator()
            func addNext() {
                guard let first = rest.next() else { return }
                group.addTask {
                    await self.piece(at: first, start + first..<start + min(first + length, limit), in: lists, search)
                }
            }
            for _ in 0..<Self.piecesOfPage { addNext() }
            var pieces: [Int: Piece] = [:]
            for await piece in group {
                pieces[piece.position] = piece
                if piece.error == nil { addNext() }
            }
            return pieces
        }
        var page = WaitingPage()
        var (bytes, read) = (0, 0)
        for first in starts {
            guard let piece = pieces[first] else { break }
            if let error = piece.error { throw error }
            page.jobs += piece.found.map { ($0.position + first, $0.job) }
            // The piece may have had fewer elements, because some have been claimed meanwhile.
            page.read = min(first + length, limit)
            page.digests += piece.digests
            read += piece.read
            bytes += piece.bytes
        }
        page.next = min(max(Self.bytesOfPage / max(1, bytes / max(1, read)), 10), Self.maxPageOfElements)
        return page
    }

    /// What was found in a piece of a page, or the error that stopped its reading.
    private struct Piece {
        /// Where the piece begins in the page. `read` is how many elements it had.
        let position: Int
        var read = 0
        var bytes = 0
        var found: [(position: Int, job: ListedJob)] = []
        var digests: [(list: String, ofElements: [Int])] = []
        var error: RedisError?
    }

    private func piece(
        at position: Int, _ range: Range<Int>, in lists: WaitingLists, _ search: Search
    ) async -> Piece {
        var piece = Piece(position: position)
        do throws(RedisError) {
            let elements = try await elements(in: lists, from: range.lowerBound, limit: range.count)
            piece.read = elements.count
            piece.bytes = elements.reduce(0) { $0 + $1.bytes.count }
            var first = 0
            while first < elements.count {
                let source = elements[first].source
                let end = elements[first...].firstIndex { $0.source !== source } ?? elements.count
                piece.digests.append((source.key, elements[first..<end].map(\.digest)))
                first = end
            }
            piece.found = try await search(elements)
        } catch { piece.error = error }
        return piece
    }

    /// For each group of `hashesOfCall` ids, whether any of the jobs has a hash. True if this user may not ask that.
    private func known(_ ids: [String?]) async throws(RedisError) -> [Bool] {
        // Which partition's job an element is for would have to be known for each, so each element is read.
        guard partitions.isEmpty else { return ids.chunks(ofCount: Self.hashesOfCall).map { _ in true } }
        let prefix = keys.job("")
        let groups = ids.chunks(ofCount: Self.hashesOfCall).map { $0.compactMap { $0.map { prefix + $0 } } }
        let asked = groups.filter { !$0.isEmpty }
        var replies = try await redis.pipeline(
            asked.map { .command(Command(arguments: ["EXISTS"] + $0).encoded) })[...]
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

/// Finds the id that an element gives, without reading the element as JSON.
enum ElementID {
    /// The value of the only member `id` of an object without escapes, if it is a valid id. nil if only a JSON reader can
    /// find it.
    static func quick(_ element: [UInt8]) -> String? {
        element.withUnsafeBufferPointer { bytes in
            var depth = 0
            var found: Range<Int>?
            var position = 0
            while position < bytes.count {
                switch bytes[position] {
                case UInt8(ascii: "\\"): return nil
                case UInt8(ascii: "{"), UInt8(ascii: "["): depth += 1
                case UInt8(ascii: "}"), UInt8(ascii: "]"): depth -= 1
                case UInt8(ascii: "\""):
                    guard let text = string(bytes, at: position) else { return nil }
                    position = text.upperBound
                    if depth == 1, let value = value(ofIDAt: text, bytes) {
                        // The JSON reader decides what two members `id` mean.
                        if found != nil { return nil }
                        found = value
                        position = value.upperBound
                    }
                default: break
                }
                position += 1
            }
            return found.map { String(decoding: bytes[$0], as: UTF8.self) }.flatMap { JobField.isID($0) ? $0 : nil }
        }
    }

    /// The range between two quotes, of which the first is at `quote`; nil if the text has an escape or no end.
    private static func string(_ bytes: UnsafeBufferPointer<UInt8>, at quote: Int) -> Range<Int>? {
        var end = quote + 1
        while end < bytes.count, bytes[end] != UInt8(ascii: "\"") {
            if bytes[end] == UInt8(ascii: "\\") { return nil }
            end += 1
        }
        return end < bytes.count ? quote + 1..<end : nil
    }

    /// The range of the text that follows `name`, if `name` is `id` and names a member; nil otherwise.
    private static func value(ofIDAt name: Range<Int>, _ bytes: UnsafeBufferPointer<UInt8>) -> Range<Int>? {
        guard name.count == 2, bytes[name.lowerBound] == UInt8(ascii: "i"),
            bytes[name.lowerBound + 1] == UInt8(ascii: "d")
        else { return nil }
        var position = name.upperBound + 1
        func skipSpace() {
            while position < bytes.count, [0x20, 0x09, 0x0a, 0x0d].contains(bytes[position]) { position += 1 }
        }
        skipSpace()
        guard position < bytes.count, bytes[position] == UInt8(ascii: ":") else { return nil }
        position += 1
        skipSpace()
        guard position < bytes.count, bytes[position] == UInt8(ascii: "\"") else { return nil }
        return string(bytes, at: position)
    }
}
