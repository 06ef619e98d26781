import HaulContract
import HaulHTTP
import HaulStorage
import Synchronization

/// The right of one run to complete an upload under a name: a hidden object that only one run can create.
///
/// Some servers ignore the condition of a completion, or compare it before a simultaneous completion has ended. All of
/// them obey the condition of a PUT. So a run creates the claim, looks at the name, and then completes its upload.
/// Other runs cannot create the claim until this one has deleted it, and then they see its object.
final class NameClaim: Sendable {
    /// How long after its creation a claim allows a request.
    static let validity = Duration.seconds(300)
    /// Seconds by the server's clock after which any run may take a claim over. Its holder has sent no request for ten
    /// minutes then: the last one has expired, or the server has executed it.
    static let staleness: Int64 = 900

    /// The upload that the holder of a claim completes.
    struct Upload: Sendable {
        let id: String
        /// The key of the name.
        let key: String
    }

    private struct State {
        /// When the creation was requested; nil if this run does not hold the claim.
        var requested: ContinuousClock.Instant?
        var etag: String?
        var failure: StoreError?
        /// A request was sent that may have created it.
        var mayExist = false
        /// The ETag of another job's claim whose upload is gone, and since when this run has known that.
        var over: (etag: String, since: ContinuousClock.Instant)?
    }

    private let store: ObjectStore
    private let key: String
    /// A random number instead of the time tells this claim apart from those of other runs of the job.
    private let mark: ObjectMark
    private let upload: Upload?
    private let staleness: Int64
    private let settling: Duration
    private let stale: String?
    private let state: Mutex<State>

    /// - Parameters:
    ///   - upload: What is completed under the claim; nil to remove a stale one.
    ///   - settling: How long the upload of another job's claim must be gone until this run takes that over.
    ///   - stale: The ETag of a claim that is known to be stale.
    init(
        _ store: ObjectStore, key: String, job: String, generation: String, upload: Upload?,
        staleness: Int64 = NameClaim.staleness, settling: Duration = ObjectPartial.contradictionLimit,
        stale: String? = nil
    ) {
        (self.store, self.key, self.upload) = (store, key, upload)
        (self.staleness, self.settling, self.stale) = (staleness, settling, stale)
        mark = ObjectMark(job: job, generation: generation, time: .random(in: 0...(.max)))
        state = Mutex(State(etag: stale))
    }

    private var isValid: Bool { state.withLock { $0.requested.map { .now - $0 < Self.validity } ?? false } }

    /// Creates or renews the claim, unless it is valid. `check` throws why that did not succeed.
    func acquire() async {
        guard store.knows(.create), !isValid else { return }
        let condition = state.withLock { state in
            (state.requested, state.failure, state.mayExist) = (nil, nil, true)
            return state.etag.map(NameCondition.same) ?? .absent
        }
        do throws(StoreError) { try await create(condition) } catch { state.withLock { $0.failure = error } }
    }

    /// - Throws: `claimed` if another job has the claim; otherwise the error of the request that should have created
    ///   it.
    func check() throws(StoreError) {
        guard store.knows(.create), !isValid else { return }
        throw state.withLock { $0.failure } ?? .claimed
    }

    private func create(_ first: NameCondition) async throws(StoreError) {
        var condition = first
        var hasChecked = false
        for _ in 0..<4 {
            try await store.client.waitForTurn()
            let (sent, isBare) = (ContinuousClock.now, store.client.sendsBareETags)
            // Without If-Match, the claim is read before it is replaced.
            let isKnown = condition == .absent || store.knows(.replace)
            if isKnown || hasChecked {
                do throws(StoreError) {
                    let etag = try await put(isKnown ? condition : .none)
                    return state.withLock { ($0.requested, $0.etag) = (sent, etag) }
                } catch {
                    switch error.kind {
                    case .precondition: break
                    // Servers disagree about If-Match if there is no object.
                    case .noSuchObject where condition != .absent: break
                    // Then no job has claims.
                    case .unknownRequest where condition == .absent: return store.lacks(.create)
                    case .unknownRequest where isKnown: store.lacks(.replace)
                    default: throw error
                    }
                }
            }
            guard let head = try await store.client.head(key) else {
                condition = .absent
                continue
            }
            // Only one run has the job. What its earlier runs have sent is for the same upload, or for an aborted one.
            guard let etag = head.etag else { break }
            if head.mark?.job != mark.job, head.age ?? 0 <= staleness, etag != stale, await !isOver(etag) { break }
            if condition == .same(etag) { store.client.toggleETagQuotes(from: isBare) }
            (condition, hasChecked) = (.same(etag), true)
        }
        throw .claimed
    }

    /// Whether another job's claim protects nothing: its upload was completed or aborted so long ago that each server
    /// shows the object. Its worker has died before it could delete the claim.
    private func isOver(_ etag: String) async -> Bool {
        guard let upload, let text = try? await store.client.get(key, limit: 4096),
            let theirs = String(decoding: text, as: UTF8.self).split(separator: "\n").dropFirst(2).first
        else { return false }
        do throws(StoreError) {
            _ = try await store.client.parts(of: String(theirs), upload.key)
            return false
        } catch {
            guard error.kind == .noSuchUpload else { return false }
        }
        return state.withLock { state in
            if let over = state.over, over.etag == etag { return .now - over.since >= settling }
            state.over = (etag, .now)
            return false
        }
    }

    private func put(_ condition: NameCondition) async throws(StoreError) -> String {
        // No two requests have the same bytes, so that each has another ETag. The third line is for isOver().
        let lines = [mark.job, String(UInt64.random(in: 0...(.max))), upload?.id ?? "", ""]
        let bytes = Array(lines.joined(separator: "\n").utf8)
        let md5 = Digest.md5(bytes)
        let etag = try await store.client.putFinal(key, RequestMemory(bytes), md5: md5, mark: mark, condition)
        return etag ?? Hexadecimal.text(md5)
    }

    /// Deletes the claim if this run has created it.
    func release() async {
        guard state.withLock({ $0.mayExist }) else { return }
        await store.deleteFinal(key) { [mark] in $0.mark == mark }
    }
}

extension StoreError {
    /// Another job has the claim of the name.
    static let claimed = StoreError(status: 409, code: "NameClaimed", message: "", kind: .transient)
}

extension ObjectStore {
    func claim(_ path: String, job: String, generation: String, upload: String) -> NameClaim {
        NameClaim(
            self, key: client.address.key(HiddenKeys.claim(ofName: path)), job: job, generation: generation,
            upload: .init(id: upload, key: client.address.key(path)))
    }

    /// Removes the claim that any run of a generation has left, whose uploads were completed or aborted.
    func removeClaim(_ path: String, job: String, generation: String) async {
        await deleteFinal(client.address.key(HiddenKeys.claim(ofName: path))) {
            $0.mark?.job == job && $0.mark?.generation == generation
        }
    }
}

extension ObjectPartial {
    /// Runs `body`, which completes `upload`, with a claim of `name`. Releases the claim unless a request may still be
    /// executed.
    func claiming(
        _ name: ObjectName, for upload: String, _ body: (NameClaim) async throws(TransferError) -> Naming
    ) async throws(TransferError) -> Naming {
        let (store, job, generation) = (store, request.key, generation)
        let claim = store.claim(name.path, job: job, generation: generation, upload: upload)
        var isNamed = false
        defer {
            // In the background, because the job has its object already.
            if isNamed {
                // The upload is complete, even if an earlier run of the job has done that.
                store.deferWork { await store.removeClaim(name.path, job: job, generation: generation) }
            } else if state.withLock({ $0.unanswered.isEmpty }) {
                store.deferWork { await claim.release() }
            }
        }
        let naming = try await body(claim)
        if case .placed = naming { isNamed = true }
        return naming
    }
}
