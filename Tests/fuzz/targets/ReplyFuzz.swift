/// Replies of Redis: the values do not depend on how the bytes are split, and are the same when written and parsed
/// again.
enum ReplyFuzz: FuzzTarget {
    static func run(_ bytes: UnsafeRawBufferPointer) {
        let whole = read([bytes])
        precondition(read(bytes.indices.map { UnsafeRawBufferPointer(rebasing: bytes[$0..<($0 + 1)]) }) == whole)
        for value in whole.values {
            _ = (value.string, value.int, value.bytes, value.dictionary)
            guard let written = write(value) else { continue }
            let again = written.withUnsafeBytes { read([$0]) }
            precondition(again.values == [value] && !again.isBroken)
        }
    }

    struct Reading: Equatable {
        var values: [RedisValue] = []
        var isBroken = false
    }

    private static func read(_ parts: [UnsafeRawBufferPointer]) -> Reading {
        let reader = ReplyReader()
        var reading = Reading()
        for part in parts where !part.isEmpty {
            precondition(reader.feed(part))
            do { while let value = try reader.next() { reading.values.append(value) } } catch {
                reading.isBroken = true
                return reading
            }
        }
        return reading
    }

    /// nil if the value contains an error: a parsed error keeps only the meaning of its text.
    private static func write(_ value: RedisValue) -> [UInt8]? {
        switch value {
        case .null: return Array("$-1\r\n".utf8)
        case .integer(let number): return Array(":\(number)\r\n".utf8)
        case .status(let text): return Array("+\(text)\r\n".utf8)
        case .bulk(let bytes): return Array("$\(bytes.count)\r\n".utf8) + bytes + [13, 10]
        case .error(let error):
            precondition(!error.message.isEmpty && (error.redirectTarget == nil || error.code == .moved))
            return nil
        case .array(let elements):
            var written = Array("*\(elements.count)\r\n".utf8)
            for element in elements {
                guard let part = write(element) else { return nil }
                written += part
            }
            return written
        }
    }
}
