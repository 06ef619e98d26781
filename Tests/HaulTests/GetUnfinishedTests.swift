import Foundation
import Glibc
import HaulContract
import HaulTestSupport
import Testing

@testable import HaulDirect
@testable import HaulTerminal
@testable import haul

/// Unfinished files of other programs under a final name.
@Suite struct GetUnfinishedTests {
    private static let bytes = FileBytes(seed: 96, count: 3_000_000)
    private static let checksum = "sha256:" + bytes.sha256
    private static let aria2 = ChildProcess.path(of: "aria2c")

    private func origin(hold: (Int64, Latch)? = nil, headers: [(String, String)] = []) throws -> OriginServer {
        try OriginServer { request in
            var reply = OriginReply.file(Self.bytes, headers: headers, to: request)
            reply.hold = hold
            return reply
        }
    }

    private func firstByteAsked(_ origin: OriginServer) -> [Int64] {
        origin.requests.compactMap { $0.headers["range"] }.compactMap { range in
            Int64(range.dropFirst("bytes=".count).prefix { $0 != "-" })
        }.sorted()
    }

    @Test("the first bytes of a file are continued if a checksum covers the whole", arguments: [true, false])
    func beginning(isGiven: Bool) async throws {
        let bench = GetBench()
        let digest = "sha-256=:\(Data(hexadecimal: Self.bytes.sha256).base64EncodedString()):"
        let origin = try origin(headers: isGiven ? [] : [("Repr-Digest", digest)])
        bench.write("x", Self.bytes.bytes(0..<1_234_567))
        let get =
            try await isGiven
            ? bench.get(origin.url("/x"), "--checksum", Self.checksum) : bench.get(origin.url("/x"))
        #expect(get.status == 0 && get.err.contains("continues at 1.2 MB of 3.0 MB"), "\(get)")
        #expect(get.out.contains(isGiven ? "sha256 (given)" : "sha256 (server's)"))
        #expect(bench.files.holds("x", Self.bytes) && bench.names == ["x"])
        #expect(firstByteAsked(origin).first == 1_234_567)
    }

    @Test("the first bytes stay if no checksum covers the whole, or if it does not match") func refused() async throws {
        let (bench, origin) = (GetBench(), try origin())
        bench.write("x", Self.bytes.bytes(0..<1_000_000))
        let get = try await bench.get(origin.url("/x"))
        #expect(get.status == 1 && get.err.contains("or --checksum, which continues this file"), "\(get)")
        #expect(bench.files.contents("x")?.count == 1_000_000 && firstByteAsked(origin).isEmpty)
        let other = FileBytes(seed: 1, count: 1_000_000).all
        bench.write("x", other)
        let wrong = try await bench.get(origin.url("/x"), "--checksum", Self.checksum)
        #expect(wrong.status == 1 && wrong.err.contains("do not belong to the file with the checksum"), "\(wrong)")
        #expect(bench.files.contents("x") == other && bench.names == ["x"])
        let anew = try await bench.get(
            origin.url("/x"), "--checksum", Self.checksum, "--if-exists", "overwrite")
        #expect(anew.status == 0 && bench.files.holds("x", Self.bytes) && bench.names == ["x"])
    }

    @Test("a kill during the continuation loses neither the old file nor the new bytes") func killed() async throws {
        let (bench, gate) = (GetBench(), Latch())
        let origin = try origin(hold: (500_000, gate))
        bench.write("x", Self.bytes.bytes(0..<1_000_000))
        let first = try bench.start([origin.url("/x"), "--checksum", Self.checksum, "-x1"])
        try await eventually("more than the old bytes to be recorded") { bench.recorded > 1_000_000 }
        first.kill(SIGKILL)
        _ = try await first.wait()
        #expect(bench.files.contents("x")?.count == 1_000_000)
        gate.open()
        let second = try await bench.get(origin.url("/x"), "--checksum", Self.checksum)
        #expect(second.status == 0 && second.err.contains("continues at 1."), "\(second)")
        #expect(bench.files.holds("x", Self.bytes) && bench.names == ["x"])
    }

    @Test("a part behind a symbolic link is refused before anything is fetched, and its own path continues it")
    func link() async throws {
        let (bench, origin) = (GetBench(), try origin())
        bench.write("part", Self.bytes.bytes(0..<1_000_000))
        try #require(symlink("part", bench.files.file("x")) == 0)
        let get = try await bench.get(origin.url("/x"), "--checksum", Self.checksum)
        #expect(get.status == 1 && get.err.contains("is a symbolic link, and the server's has 3.0 MB"), "\(get)")
        #expect(bench.files.contents("part")?.count == 1_000_000 && bench.names == ["part", "x"])
        #expect(origin.requests.count == 1 && firstByteAsked(origin).isEmpty)
        let own = try await bench.get(origin.url("/x"), "--checksum", Self.checksum, "-o", "part")
        #expect(own.status == 0 && own.err.contains("continues at 1.0 MB"), "\(own)")
        #expect(bench.files.holds("x", Self.bytes) && bench.names == ["part", "x"])
    }

    @Test("a file that changes in the meantime is not replaced") func written() async throws {
        let (bench, gate) = (GetBench(), Latch())
        let origin = try origin(hold: (500_000, gate))
        bench.write("x", Self.bytes.bytes(0..<1_000_000))
        let get = try bench.start([origin.url("/x"), "--checksum", Self.checksum, "-x1"])
        try await eventually("more than the old bytes to be recorded") { bench.recorded > 1_000_000 }
        bench.write("x", "mine")
        gate.open()
        #expect(try await get.wait() == 1 && get.standardError.contains("was made or changed during this download"))
        #expect(bench.files.contents("x") == Array("mine".utf8))
    }

    @Test(
        "a server without ranges sends the whole, which replaces the old file only if that is a part of it",
        arguments: [(3_000_000, 100_000), (5000, 1000)])
    func withoutRanges(count: Int64, old: Int64) async throws {
        let (bench, bytes) = (GetBench(), FileBytes(seed: 97, count: count))
        let origin = try OriginServer { request in
            request.path == "/x" ? OriginReply(headers: [("ETag", "\"v1\"")], body: bytes.all) : OriginReply(404)
        }
        bench.write("x", bytes.bytes(0..<old))
        let get = try await bench.get(origin.url("/x"), "--checksum", "sha256:" + bytes.sha256)
        #expect(get.status == 0 && get.out.contains("sha256 (given)"), "\(get)")
        #expect(bench.files.holds("x", bytes) && bench.names == ["x"])
        let other = FileBytes(seed: 1, count: old).all
        bench.write("x", other)
        let wrong = try await bench.get(origin.url("/x"), "--checksum", "sha256:" + bytes.sha256)
        #expect(wrong.status == 1 && wrong.err.contains("do not belong to the file with the checksum"), "\(wrong)")
        #expect(bench.files.contents("x") == other && bench.names == ["x"])
        let next = try await bench.get(origin.url("/absent"))
        #expect(!next.err.contains("unfinished"), "\(next)")
    }

    // MARK: aria2

    /// A control file of version 1 with pieces of 1 MiB: the second one is complete, the third one has its first 32
    /// KiB.
    private static func control(total: Int64) -> [UInt8] {
        func number(_ value: Int64, _ count: Int) -> [UInt8] {
            (0..<count).reversed().map { UInt8(truncatingIfNeeded: value >> (8 * $0)) }
        }
        return [0, 1] + number(0, 4) + number(0, 4) + number(1 << 20, 4) + number(total, 8) + number(0, 8)
            + number(1, 4) + [0b0100_0000] + number(1, 4) + number(2, 4) + number(1 << 20, 4) + number(8, 4)
            + [0b1100_0000, 0, 0, 0, 0, 0, 0, 0]
    }

    @Test("aria2's control file is parsed, and a malformed one never yields bytes beyond the file") func controlFile() {
        let bytes = Self.control(total: 3_000_000)
        let control = Aria2Control(bytes)
        #expect(control?.total == 3_000_000)
        #expect(control?.written == ByteIntervals([1 << 20..<2 << 20, 2 << 20..<(2 << 20) + 32768]))
        for count in 0..<bytes.count { #expect(Aria2Control(Array(bytes[..<count])) == nil) }
        // A piece in flight that ends beyond the largest number.
        let most: [UInt8] = [0xFF, 0xFF, 0xFF, 0xFF]
        let far: [UInt8] =
            [0, 1] + [UInt8](repeating: 0, count: 8) + most + [0x7F, 0xFF, 0xFF, 0xFF] + most
            + [UInt8](repeating: 0, count: 12) + [0, 0, 0, 1] + [0x80, 0, 0, 0] + most + [0, 0, 0, 1, 0x80]
        #expect(Aria2Control(far)?.written.count == 16 << 10)
        // Its last block ends beyond it as well.
        let map = [UInt8](repeating: 0, count: (16 << 10) - 1) + [1]
        let last = Aria2Control(Array(far.dropLast(5)) + [0, 0, 0x40, 0] + map)
        #expect(last?.written == ByteIntervals([Int64.max - (16 << 10) + 1..<Int64.max]))
        for index in bytes.indices {
            for value in [0, 0x7f, 0x80, 0xff] as [UInt8] {
                var changed = bytes
                changed[index] = value
                if let read = Aria2Control(changed) { #expect(read.written.end <= read.total) }
            }
        }
    }

    @Test("a file that aria2 has not finished never counts as the file, although it has its size")
    func aria2Unfinished() async throws {
        let (bench, origin) = (GetBench(), try origin(headers: [("Last-Modified", "Sun, 06 Nov 1994 08:49:37 GMT")]))
        var left = [UInt8](repeating: 7, count: 3_000_000)
        left.replaceSubrange(1 << 20..<2 << 20, with: Self.bytes.bytes(1 << 20..<2 << 20))
        left.replaceSubrange(2 << 20..<(2 << 20) + 32768, with: Self.bytes.bytes(2 << 20..<(2 << 20) + 32768))
        bench.write("x", left)
        bench.write("x.aria2", Self.control(total: 3_000_000))
        let unproven = try await bench.get(origin.url("/x"))
        #expect(unproven.status == 1 && unproven.err.contains("unfinished by aria2 (1.1 MB)"), "\(unproven)")
        #expect(bench.files.contents("x") == left && bench.names == ["x", "x.aria2"])
        let get = try await bench.get(origin.url("/x"), "--checksum", Self.checksum, "-x1")
        #expect(get.status == 0 && get.err.contains("continues at 1.1 MB of 3.0 MB"), "\(get)")
        #expect(bench.files.holds("x", Self.bytes) && bench.names == ["x"])
        #expect(firstByteAsked(origin) == [0, (2 << 20) + 32768])
        bench.write("y", left)
        bench.write("y.aria2", Self.control(total: 2_000_000))
        let other = try await bench.get(origin.url("/y"), "--checksum", Self.checksum)
        #expect(other.status == 1 && bench.files.contents("y") == left, "\(other)")
    }

    @Test("aria2's control file does not outlive its download, whether the file is replaced or was already whole")
    func controlRemoved() async throws {
        let (bench, origin) = (GetBench(), try origin())
        func isRight(_ what: String, _ arguments: String...) async throws {
            bench.write("x.aria2", Self.control(total: 3_000_000))
            let get = try bench.start(arguments + [origin.url("/x")])
            #expect(try await get.wait() == 0 && get.standardOutput.hasPrefix(what), "\(get.standardError)")
            #expect(bench.files.holds("x", Self.bytes) && bench.names == ["x"], "\(bench.names)")
        }
        bench.write("x", [UInt8](repeating: 7, count: 3_000_000))
        try await isRight("completed", "--if-exists", "overwrite")
        try await isRight("unchanged", "--checksum", Self.checksum)
        try await isRight("unchanged", "--checksum", Self.checksum, "--if-exists", "skip")
        unlink(bench.files.file("x"))
        try await isRight("completed")
        // A file of the user that only has such a name.
        bench.write("y.aria2", "mine")
        #expect(try await bench.get(origin.url("/y")).status == 0)
        #expect(bench.files.contents("y.aria2") == Array("mine".utf8))
    }

    @Test("the download of a real aria2 is continued", .enabled(if: aria2 != nil, "aria2c is not installed"))
    func realAria2() async throws {
        let (bench, gate) = (GetBench(), Latch())
        let origin = try origin(hold: (300_000, gate))
        let first = try ChildProcess(
            try #require(Self.aria2),
            ["-d", bench.files.path, "-x2", "-s2", "-k1M", "--auto-save-interval=1", "-q", origin.url("/x")])
        let control = bench.files.file("x.aria2")
        try await eventually("aria2 to save its control file") {
            (Aria2Control(readable: control)?.written.count ?? 0) > 300_000
        }
        first.kill(SIGKILL)
        _ = try await first.wait()
        gate.open()
        let asked = origin.requests.count
        let get = try await bench.get(origin.url("/x"), "--checksum", Self.checksum)
        #expect(get.status == 0 && get.err.contains("continues at"), "\(get)")
        #expect(bench.files.holds("x", Self.bytes) && bench.names == ["x"])
        // One request is for the whole, to learn its version.
        #expect(origin.requests.dropFirst(asked).count { $0.headers["range"] == nil } == 1)
    }

    @Test("a file with holes does not count as complete by its size alone") func holes() async throws {
        let (bench, origin) = (GetBench(), try origin(headers: [("Last-Modified", "Sun, 06 Nov 1994 08:49:37 GMT")]))
        bench.write("x", Self.bytes.bytes(0..<100_000))
        try #require(truncate(bench.files.file("x"), off_t(Self.bytes.count)) == 0)
        let get = try await bench.get(origin.url("/x"))
        #expect(get.status == 1 && get.err.contains("but also holes"), "\(get)")
    }
}

extension Data {
    fileprivate init(hexadecimal text: String) {
        let digits = Array(text)
        self.init(stride(from: 0, to: digits.count, by: 2).compactMap { UInt8(String(digits[$0...$0 + 1]), radix: 16) })
    }
}
