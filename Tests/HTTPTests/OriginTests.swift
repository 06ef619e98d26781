import Foundation
import Glibc
import HaulContract
import HaulTestSupport
import Testing

@testable import HaulFileStore
@testable import HaulHTTP

/// Tests of the tests' own origin, where other tests depend on its correctness.
@Suite("The scripted origin")
struct OriginTests {
    private static let bytes = FileBytes(seed: 91, count: 10_000)

    private func ask(_ origin: OriginServer, range: String) async throws -> (ResponseHead, [UInt8]) {
        var request = localRequest(origin.url("/a"))
        request.headers = [HeaderField("Range", range)]
        let transfer = try await localEngine().start(request)
        return (transfer.head, try await transfer.collect(limit: 1 << 20))
    }

    @Test(
        "the origin sends one range of any form",
        arguments: [
            ("bytes=0-0", 0..<1), ("bytes=9990-", 9990..<10_000), ("bytes=5-99999", 5..<10_000),
            ("bytes=-10", 9990..<10_000), ("bytes=-20000", 0..<10_000),
        ] as [(String, Range<Int64>)])
    func range(_ text: String, _ expected: Range<Int64>) async throws {
        let origin = try OriginServer { .file(Self.bytes, to: $0) }
        let (head, body) = try await ask(origin, range: text)
        #expect(head.status == 206 && body == Self.bytes.bytes(expected))
        let end = expected.upperBound - 1
        #expect(head.headers["content-range"] == "bytes \(expected.lowerBound)-\(end)/10000")
    }

    @Test("the origin sends several ranges in parts, and 416 beyond the end") func ranges() async throws {
        let origin = try OriginServer { .file(Self.bytes, to: $0) }
        let (head, body) = try await ask(origin, range: "bytes=0-1, 20000-, -2")
        #expect(head.status == 206 && head.headers["content-type"]?.hasPrefix("multipart/byteranges") == true)
        #expect(head.headers["content-range"] == nil)
        let text = Array("Content-Range: bytes 9998-9999/10000\r\n\r\n".utf8) + Self.bytes.bytes(9998..<10_000)
        #expect(body.firstRange(of: text) != nil)
        #expect(try await ask(origin, range: "bytes=10000-").0.status == 416)
    }

    @Test("the origin's close reaches the client although other child processes were started meanwhile")
    func children() async throws {
        let children = Shared<[ChildProcess]>([])
        let origin = try OriginServer { _ in
            if let child = try? ChildProcess("sleep", ["60"]) { children.change { $0.append(child) } }
            var reply = OriginReply(body: [1, 2])
            reply.framing = .close
            return reply
        }
        #expect(try await fetch(localEngine(), localRequest(origin.url("/a"))) == [1, 2])
        #expect(children.value.count == 1)
    }

    @Test("the origin streams a GiB, and neither side holds it in memory") func large() async throws {
        // In a process of its own, so that no other test uses its memory.
        await #expect(processExitsWith: .success) {
            let bytes = FileBytes(seed: 92, count: 1 << 30)
            let origin = try OriginServer { .file(bytes, to: $0) }
            let differing = Shared(0)
            // Each block is compared instead of written.
            let diskWriter = DiskWriter { _, block, count, offset in
                let expected = bytes.bytes(offset..<min(offset + 64, offset + Int64(count)))
                if !UnsafeRawBufferPointer(start: block, count: expected.count).elementsEqual(expected) {
                    differing.change { $0 += 1 }
                }
                return count
            }
            let file = OutputFile(descriptor: temporaryDescriptor(), diskWriter: diskWriter, durability: .process)
            let end = try await localEngine().start(localRequest(origin.url("/a"))).receive(into: file, at: 0)
            #expect(end.bytes == bytes.count && file.written == ByteIntervals([0..<bytes.count]))
            #expect(differing.value == 0)
            let status = try String(contentsOfFile: "/proc/self/status", encoding: .utf8)
            let peak = status.split(separator: "\n").first { $0.hasPrefix("VmHWM:") }?.split(separator: " ").dropFirst()
                .first
            #expect(try #require(peak.flatMap { Int($0) }) < 256 << 10, "KiB")
        }
    }
}
