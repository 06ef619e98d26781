import Glibc
import HaulContract
import HaulFileStore
import HaulHTTP
import HaulStorage
import HaulTestSupport
import Testing

/// Other processes write into the root, too.
@Suite struct DisturbedTests {
    enum Act: CaseIterable { case exchangedForFile, exchangedForLink, exchangedForDirectory, cut, cutAtEnd }

    private static let bytes = testBytes(3_000_000)

    private let root = TemporaryDirectory()
    private let key = String(repeating: "a", count: 40)

    private func request(_ ifExists: Job.IfExists = .reuse) -> FileRequest {
        FileRequest(
            key: key, runToken: String(repeating: "1", count: 32), isNew: true, path: "file", ifExists: ifExists,
            completed: nil, lease: RunLease(isHeld: { true }, confirm: { true }))
    }

    private func receive(_ range: Range<Int>, into partial: any Partial) async throws {
        let sink = partial.sink(at: Int64(range.lowerBound)) { false }
        try await feed(Array(Self.bytes[range]), to: sink)
        try await sink.finish()
    }

    private func disturb(_ act: Act) {
        let path = root.file(root.names.first { $0.hasPrefix(".haul-") }!)
        switch act {
        case .cut: truncate(path, 1000)
        case .cutAtEnd: truncate(path, 2_000_000)
        case .exchangedForFile:
            unlink(path)
            let descriptor = open(path, O_WRONLY | O_CREAT, 0o644)
            ftruncate(descriptor, Self.bytes.count)
            close(descriptor)
        case .exchangedForLink:
            unlink(path)
            symlink("/etc/passwd", path)
        case .exchangedForDirectory:
            unlink(path)
            mkdir(path, 0o755)
        }
    }

    @Test(
        "a partial file that another process has changed gets no final name, and replaces nothing",
        arguments: Act.allCases, [Job.IfExists.reuse, .overwrite])
    func disturbed(_ act: Act, _ ifExists: Job.IfExists) async throws {
        let store = try FileStore(root: root.path)
        if ifExists == .overwrite {
            let descriptor = open(root.file("file"), O_WRONLY | O_CREAT, 0o644)
            _ = Glibc.write(descriptor, [1, 2, 3] as [UInt8], 3)
            close(descriptor)
        }
        let request = request(ifExists)
        let partial = store.begin(request, generation: request.runToken, suggested: "x")
        let size = Int64(Self.bytes.count)
        try await partial.open(total: size, hashing: nil, with: [])
        try await receive(0..<2_500_000, into: partial)
        _ = try await partial.checkpoint(isLast: false)
        if act == .cutAtEnd {
            try await receive(2_500_000..<3_000_000, into: partial)
            disturb(act)
        } else {
            disturb(act)
            try await receive(2_500_000..<3_000_000, into: partial)
        }
        let whole = WholeFile(size: size, checksum: nil, authority: "the job", lastModified: nil)
        let error = await thrown { () throws(TransferError) in try await partial.commit(whole) }
        #expect(error?.code == .io, "\(String(describing: error))")
        #expect(error?.message?.contains("exchanged or cut") == true)
        #expect(root.contents("file") == (ifExists == .overwrite ? [1, 2, 3] : nil))
        #expect(root.names.contains { $0.hasPrefix(".haul-") } == (act == .exchangedForDirectory))
    }

    @Test("a file that can never fit leaves nothing behind") func tooLarge() async throws {
        let store = try FileStore(root: root.path)
        let request = request()
        let partial = store.begin(request, generation: request.runToken, suggested: "x")
        let error = await thrown { () throws(TransferError) in
            try await partial.open(total: 1 << 60, hashing: nil, with: [])
        }
        #expect(error?.code == .tooLarge)
        #expect(root.names == [])
    }

    @Test("a store's id has 32 hexadecimal digits") func id() throws {
        for _ in 0..<40 {
            let root = TemporaryDirectory()
            let id = try FileStore(root: root.path).id
            #expect(id.utf8.count == 32 && id.allSatisfy(\.isHexDigit), "\(id)")
        }
    }
}
