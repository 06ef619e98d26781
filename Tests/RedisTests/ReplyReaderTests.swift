import Testing

@testable import HaulRedis

/// Replies that arrive in pieces of any size.
struct ReplyReaderTests {
    @Test(arguments: [1, 2, 7, 1000])
    func repliesOfAllTypesAreReadFromPiecesOfAnySize(size: Int) throws {
        let bytes = Array(
            """
            *6\r\n$3\r\none\r\n:-2\r\n$-1\r\n*0\r\n*2\r\n+OK\r\n*1\r\n$0\r\n\r\n-WRONGTYPE no list\r\n\
            $4\r\nnext\r\n*-1\r\n
            """.utf8)
        let reader = ReplyReader()
        var replies: [RedisValue] = []
        for start in stride(from: 0, to: bytes.count, by: size) {
            #expect(bytes[start..<min(start + size, bytes.count)].withUnsafeBytes { reader.feed($0) })
            while let reply = try reader.next() { replies.append(reply) }
        }
        let array: [RedisValue] = [
            .bulk(Array("one".utf8)), .integer(-2), .null, .array([]), .array([.status("OK"), .array([.bulk([])])]),
            .error(RedisError(reply: "WRONGTYPE no list")),
        ]
        #expect(replies == [.array(array), .bulk(Array("next".utf8)), .null])
    }

    @Test(arguments: ["HTTP/1.1 400 Bad Request\r\n\r\n", "*-5\r\n", "$x\r\n", String(repeating: "*1\r\n", count: 20)])
    func whatIsNotRESPIsAnError(text: String) throws {
        let reader = ReplyReader()
        #expect(Array(text.utf8).withUnsafeBytes { reader.feed($0) })
        let error = #expect(throws: RedisError.self) { while try reader.next() != nil {} }
        #expect(error?.code == .closed)
    }

    @Test
    func anAnnouncedLengthTakesNoMemoryBeforeItsElementsCome() throws {
        let reader = ReplyReader()
        // Each of them would take more than this machine has.
        for text in ["*2147483647\r\n", "*2147483647\r\n:1\r\n"] {
            #expect(Array(text.utf8).withUnsafeBytes { reader.feed($0) })
            #expect(try reader.next() == nil)
        }
    }
}
