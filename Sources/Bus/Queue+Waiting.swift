import HaulContract
package import HaulRedis

/// What waits in line, for who looks for a few jobs among very many.
package struct WaitingPage: Sendable {
    /// How many elements were looked at; 0 at the end of the line.
    package var read: Int
    /// The jobs that may be meant, each with its place among those elements.
    package var jobs: [(place: Int, job: ListedJob)] = []

    package init(read: Int = 0) { self.read = read }
}

extension Queue {
    /// The jobs in line that may be meant, without the first `start` elements, of at most `limit`.
    ///
    /// To read an element as a job costs many times what it costs to look at its bytes. So an element is read only if its bytes
    /// may match, or if a job of this page has a hash: that one may match though its element does not.
    ///
    /// - Parameter isPossible: Whether a job of which nothing is known but these bytes may match. It may say yes too often.
    package func waiting(
        from start: Int, limit: Int, that isPossible: @Sendable ([UInt8]) -> Bool
    ) async throws(RedisError) -> WaitingPage {
        let reply = try await redis.send(Command("LRANGE", keys.jobs, -start - limit, -start - 1))
        let elements = (reply.array ?? []).reversed().map { $0.bytes ?? [] }
        var page = WaitingPage(read: elements.count)
        let ids = elements.map(ElementID.quick)
        let isKnown = try await anyIsKnown(ids.compactMap { $0 })
        for (place, element) in elements.enumerated() where isKnown || ids[place] == nil || isPossible(element) {
            if let job = Self.listed(element) { page.jobs.append((place, job)) }
        }
        return page
    }

    /// Whether there is a hash of any of these jobs. Who may not ask that takes it for so.
    private func anyIsKnown(_ ids: [String]) async throws(RedisError) -> Bool {
        if ids.isEmpty { return false }
        let command = Command(arguments: ["EXISTS"] + ids.map { keys.job($0) })
        do throws(RedisError) { return try await redis.send(command).int != 0 } catch {
            guard error.code == .noPermission else { throw error }
            return true
        }
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
