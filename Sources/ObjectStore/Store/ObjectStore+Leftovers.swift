import HaulContract
import HaulHTTP
package import HaulStorage

// Hidden objects beneath `.haul/`, and their removal.
extension ObjectStore {
    /// Removes the hidden objects of a generation. First aborts its uploads, until these have no parts. Logs errors.
    ///
    /// - Parameter completed: Uploads that need no abort.
    func purge(_ hidden: HiddenKeys, completed: Set<String>) async {
        do throws(StoreError) {
            try await remove(try await client.list(client.address.key(hidden.folder)).objects, completed: completed)
        } catch { notify(error, about: hidden.folder) }
    }

    /// Removes the hidden objects of all generations of a job, except `kept`.
    func purge(job: String, but kept: String?) async throws(StoreError) {
        let found = try await client.list(client.address.key(HiddenKeys.prefix(ofJob: job))).objects
        try await remove(found.filter { parse($0.key).map { $0.keys.generation != kept } ?? false }, completed: [])
    }

    /// Aborts the other uploads of a generation that continues: an earlier run may have begun to name the object.
    func abort(in hidden: HiddenKeys, but kept: String?, _ objects: [ListedObject]) async throws(StoreError) {
        let others = objects.filter { object in
            guard let (keys, kind) = parse(object.key), keys == hidden, case .upload(let id) = kind else {
                return false
            }
            return id != kept
        }
        try await remove(others, completed: [])
    }

    private func notify(_ error: StoreError, about path: String) {
        guard error.kind != .cancelled else { return }
        client.notify("leftovers at \(path) of \(client.address) remain for now: \(error.summary)")
    }

    private func path(_ key: String) -> String {
        String(decoding: key.utf8.dropFirst(client.address.key("").utf8.count), as: UTF8.self)
    }

    private func parse(_ key: String) -> (keys: HiddenKeys, kind: HiddenKeys.Kind)? { HiddenKeys.parse(path(key)) }

    private func remove(_ objects: [ListedObject], completed: Set<String>) async throws(StoreError) {
        var known: Set<String> = []
        for object in objects {
            guard case .upload(let id)? = parse(object.key)?.kind else { continue }
            known.insert(id)
            guard !completed.contains(id), let key = try await client.get(object.key, limit: 4096) else { continue }
            try await client.abort(id, String(decoding: key, as: UTF8.self))
        }
        let intents = objects.filter { parse($0.key)?.kind == .intent }
        // An upload may have been begun whose id no run has learned.
        if intents.count > known.count { for intent in intents { try await abortBegun(intent, known) } }
        // `owner` goes last: as long as the folder exists, its owner is known.
        for object in objects.sorted(by: { $0.key > $1.key }) where parse(object.key)?.kind != .owner {
            try await client.delete(object.key)
        }
        for object in objects where parse(object.key)?.kind == .owner { try await client.delete(object.key) }
    }

    /// The ids of the uploads of all jobs that have a `u.` object.
    private func recordedUploads() async throws(StoreError) -> Set<String> {
        let objects = try await client.list(client.address.key(HiddenKeys.root)).objects
        return Set(
            objects.compactMap { object in
                guard case .upload(let id)? = parse(object.key)?.kind else { return nil }
                return id
            })
    }

    /// How long a run may take to record the upload that it has begun, in seconds.
    private static let timeToRecord: Int64 = 5

    /// Aborts an upload for the key of `intent` that was begun right after it, unless it is `known`.
    private func abortBegun(_ intent: ListedObject, _ known: Set<String>) async throws(StoreError) {
        guard let key = try await client.get(intent.key, limit: 4096).map({ String(decoding: $0, as: UTF8.self) })
        else { return }
        let unknown = try await client.uploads(key).filter { upload in
            upload.hasKey(key) && !known.contains(upload.id)
                && (intent.modified - 5...intent.modified + 120).contains(upload.begun)
        }
        guard let newest = unknown.map(\.begun).max() else { return }
        // Another run may upload to the same key now. So its records are read after the uploads, and not before it has
        // recorded one that it has just begun.
        let wait = newest + Self.timeToRecord - client.time
        if wait > 0 {
            do { try await Task.sleep(for: .seconds(min(wait, Self.timeToRecord))) } catch {
                throw StoreError(TransferError.cancelled)
            }
        }
        let recorded = try await recordedUploads()
        for upload in unknown where !recorded.contains(upload.id) {
            client.notify("aborts the upload \(upload.id) of \(key): a run began it, and no run continues it")
            try await client.abort(upload.id, key)
        }
    }

    // MARK: The sweep

    /// Marks the path of a leftover that is an upload without a `u.` object.
    private static let stray = "upload:"
    /// Marks the path of a leftover that is the claim of a name.
    private static let claim = "claim:"

    package func leftovers(olderThan age: Int64) async -> [Leftover] {
        var found: [Leftover] = []
        do throws(StoreError) {
            let (objects, now) = try await client.list(client.address.key(HiddenKeys.root))
            var known: Set<String> = []
            var folders: [HiddenKeys: [ListedObject]] = [:]
            for object in objects {
                if HiddenKeys.isClaim(path(object.key)) {
                    // No job needs it once it is stale, so it has no job's key.
                    found.append(
                        Leftover(
                            path: Self.claim + object.key, key: "", generation: object.etag, hasFinalName: false,
                            version: .init(object.modified, 0), age: now - object.modified - NameClaim.staleness))
                }
                guard let (keys, kind) = parse(object.key) else { continue }
                if case .upload(let id) = kind { known.insert(id) }
                folders[keys, default: []].append(object)
            }
            found += folders.map { keys, objects in leftover(keys, objects, now) }
            // Only Haul uploads to such keys. All other uploads may be another program's, and stay: those of a killed
            // worker are found by their `c.` object.
            let uploads = try await client.uploads(client.address.key(HiddenKeys.root))
            found += uploads.filter { !known.contains($0.id) && parse($0.key)?.kind == .whole }.map { upload in
                Leftover(
                    path: Self.stray + upload.id + "\n" + upload.key,
                    key: Hexadecimal.text(Digest.sha256(upload.id.utf8)), generation: upload.id, hasFinalName: false,
                    version: .init(upload.begun, 0), age: now - upload.begun)
            }
        } catch { notify(error, about: HiddenKeys.root) }
        return found.filter { $0.age > age }
    }

    private func leftover(_ keys: HiddenKeys, _ objects: [ListedObject], _ now: Int64) -> Leftover {
        let newest = objects.map(\.modified).max() ?? 0
        let text = objects.map { "\($0.key)\n\($0.etag)\n\($0.size)" }.sorted().joined(separator: "\n")
        let digest = Digest.md5(text.utf8).prefix(8).reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
        return Leftover(
            path: keys.folder, key: keys.job, generation: keys.generation, hasFinalName: false,
            version: .init(newest, Int64(bitPattern: digest)), age: now - newest)
    }

    package func remove(_ leftovers: [Leftover]) async -> [Leftover] {
        var removed: [Leftover] = []
        for leftover in leftovers where await remove(leftover) { removed.append(leftover) }
        return removed
    }

    private func remove(_ found: Leftover) async -> Bool {
        do throws(StoreError) {
            if found.path.hasPrefix(Self.claim) {
                // First takes it over, because another job may do so at the same time, and some servers delete without
                // a condition.
                let claim = NameClaim(
                    self, key: String(found.path.dropFirst(Self.claim.count)), job: "sweep",
                    generation: "sweep", upload: nil, stale: found.generation.isEmpty ? nil : found.generation)
                await claim.acquire()
                await claim.release()
                return (try? claim.check()) != nil
            }
            if found.path.hasPrefix(Self.stray) {
                let parts = found.path.dropFirst(Self.stray.count).split(separator: "\n", maxSplits: 1)
                guard parts.count == 2 else { return false }
                client.notify("aborts the upload \(parts[0]) of \(parts[1]): no run continues it")
                try await client.abort(String(parts[0]), String(parts[1]))
                return true
            }
            let keys = HiddenKeys(job: found.key, generation: found.generation)
            let (objects, now) = try await client.list(client.address.key(keys.folder))
            guard !objects.isEmpty, leftover(keys, objects, now).version == found.version else { return false }
            try await remove(objects, completed: [])
            return true
        } catch {
            notify(error, about: found.path)
            return false
        }
    }
}
