import HaulContract
import HaulHTTP
import HaulStorage
import HaulTestSupport
import Synchronization
import Testing

@testable import HaulObjectStore

/// A file of several parts that is uploaded to a bucket.
enum MultipartFile {
    static let size: Int64 = 20 << 20
    static let file = FileBytes(seed: 3, count: size)
    static let key = String(repeating: "b", count: 40)
}

struct NothingLeft: Error {}

/// What tests do with the file, in the role of a download.
protocol MultipartFileTests {}

extension MultipartFileTests {
    static var size: Int64 { MultipartFile.size }
    static var file: FileBytes { MultipartFile.file }
    static var key: String { MultipartFile.key }

    func request(
        _ run: String, ifExists: Job.IfExists = .reuse, lease: RunLease = RunLease(isHeld: { true }, confirm: { true })
    ) -> FileRequest {
        FileRequest(
            key: Self.key, runToken: run, isNew: false, path: "films/film", ifExists: ifExists, completed: nil,
            lease: lease)
    }

    func whole(_ checksum: Job.Checksum? = nil) -> WholeFile {
        WholeFile(size: Self.size, checksum: checksum, authority: "the job", lastModified: nil)
    }

    var sha256: Job.Checksum { Job.Checksum(algorithm: .sha256, digest: Self.file.sha256) }

    func open(
        _ bucket: Bucket, _ run: String, hashing: Job.Checksum.Algorithm? = nil, total: Int64? = MultipartFile.size
    ) async throws -> any Partial {
        let partial = bucket.store.begin(request(run), generation: run, suggested: "x")
        try await partial.open(total: total, hashing: hashing, with: [])
        return partial
    }

    func receive(
        _ range: Range<Int64>, into partial: any Partial, patience: Duration = .seconds(20)
    ) async throws {
        let sink = partial.sink(at: range.lowerBound) { true }
        try await feed(Self.file.bytes(range), to: sink, patience: patience)
        try await sink.finish()
    }

    func point(_ partial: any Partial, isLast: Bool = true) async throws -> ResumePoint {
        // A checkpoint waits for uploads for 8 s only, and names no part that a busy server has not acknowledged by then.
        if let object = partial as? ObjectPartial {
            try await eventually("the uploads to end") { object.state.withLock { !$0.work.isAny } }
        }
        let checkpoint = try #require(try await partial.checkpoint(isLast: isLast))
        return ResumePoint(
            generation: partial.generation, store: "", file: "films/film", entity: Entity(total: Self.size),
            source: "", offsets: checkpoint.offsets, storeState: checkpoint.storeState)
    }

    func resume(_ bucket: Bucket, _ run: String, _ point: ResumePoint) async throws -> any Partial {
        guard case .partial(let partial) = try await bucket.store.resume(request(run), from: point) else {
            throw NothingLeft()
        }
        return partial
    }

    func isStored(_ outcome: CommitOutcome) -> Bool { if case .stored = outcome { true } else { false } }
    func isFenced(_ outcome: CommitOutcome) -> Bool { if case .fenced = outcome { true } else { false } }

    func expectWhole(_ bucket: Bucket) async throws {
        #expect(await bucket.read("films/film") == Self.file.all)
        let (objects, uploads) = try await bucket.everything()
        #expect(objects == ["films/film"] && uploads == 0)
    }

    func currentPoint(_ partial: any Partial) async throws -> ResumePoint {
        let storeState = try #require(partial as? ObjectPartial).state.withLock { $0.storeState }
        return ResumePoint(
            generation: partial.generation, store: "", file: "films/film", entity: Entity(total: Self.size), source: "",
            offsets: storeState.offsets, storeState: storeState.text)
    }
}
