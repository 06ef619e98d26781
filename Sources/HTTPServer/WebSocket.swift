/// Frames of RFC 6455, without a socket: `add` takes bytes, `next` returns messages. It is bounded, and refuses what a
/// browser never sends.
package struct WebSocketReader: Sendable {
    package enum Message: Sendable, Equatable {
        case text([UInt8])
        /// The client asks whether this end is alive, with a text to send back.
        case ping([UInt8])
        case close
    }

    /// The client breaks the protocol, or a message is too long. The connection must be closed with this code.
    package struct Violation: Error, Equatable {
        package let code: UInt16
        package init(code: UInt16) { self.code = code }
    }

    /// The longest message, in bytes.
    package var maxLength: Int
    private var buffer: [UInt8] = []
    /// How many bytes of the buffer have been read.
    private var position = 0
    /// The pieces of a message that is not complete.
    private var message: [UInt8]?

    package init(maxLength: Int) { self.maxLength = maxLength }

    package mutating func add(_ bytes: some Collection<UInt8>) {
        buffer.removeFirst(position)
        position = 0
        buffer += bytes
    }

    /// The next message; nil if it has not arrived completely.
    package mutating func next() throws(Violation) -> Message? {
        while true {
            guard let frame = try frame() else { return nil }
            switch frame.opcode {
            case 0x1 where message == nil:
                if frame.isFinal { return .text(frame.payload) }
                message = frame.payload
            case 0x0:
                guard let length = message?.count, length + frame.payload.count <= maxLength else {
                    throw Violation(code: message == nil ? 1002 : 1009)
                }
                // In place, so that a frame of some bytes never costs a copy of the whole message.
                message?.append(contentsOf: frame.payload)
                guard frame.isFinal, let text = message else { continue }
                message = nil
                return .text(text)
            case 0x8: return .close
            case 0x9: return .ping(frame.payload)
            case 0xA: continue
            // Binary messages have no meaning here.
            default: throw Violation(code: frame.opcode == 0x2 ? 1003 : 1002)
            }
        }
    }

    private mutating func frame() throws(Violation) -> (isFinal: Bool, opcode: UInt8, payload: [UInt8])? {
        let bytes = buffer[position...]
        guard bytes.count >= 2 else { return nil }
        let (first, second) = (bytes[position], bytes[position + 1])
        // A client masks all its frames (section 5.1), and no extension was agreed on.
        guard second & 0x80 != 0, first & 0x70 == 0 else { throw Violation(code: 1002) }
        var (length, start) = (Int(second & 0x7F), position + 2)
        let isControl = first & 0x08 != 0
        guard !isControl || length <= 125 && first & 0x80 != 0 else { throw Violation(code: 1002) }
        if length >= 126 {
            let count = length == 126 ? 2 : 8
            guard bytes.count >= 2 + count else { return nil }
            guard bytes[start] < 0x80 || count == 2 else { throw Violation(code: 1002) }
            length = bytes[start..<start + count].reduce(0) { $0 << 8 | Int($1) }
            start += count
        }
        guard length <= maxLength else { throw Violation(code: 1009) }
        guard bytes.endIndex >= start + 4 + length else { return nil }
        let mask = Array(bytes[start..<start + 4])
        let payload = bytes[(start + 4)..<(start + 4 + length)].enumerated().map { $1 ^ mask[$0 & 3] }
        position = start + 4 + length
        return (first & 0x80 != 0, first & 0x0F, payload)
    }

    /// A frame from the server, which is not masked.
    package static func frame(_ opcode: UInt8, _ payload: [UInt8]) -> [UInt8] {
        var bytes: [UInt8] = [0x80 | opcode]
        switch payload.count {
        case ...125: bytes.append(UInt8(payload.count))
        case ...0xFFFF: bytes += [126, UInt8(payload.count >> 8), UInt8(payload.count & 0xFF)]
        default: bytes += [127] + (0..<8).reversed().map { UInt8(truncatingIfNeeded: payload.count >> ($0 * 8)) }
        }
        return bytes + payload
    }
}
