import HaulContract
import HaulHTTP
package import HaulStorage

// Hidden objects beneath `.haul/`, and their removal.
extension ObjectStore {
    /// Removes the hidden objects of a generation. First aborts its uploads, until these have no parts. Ignores errors.
    ///
    /// - Parameter isCompleted: True if its upload was completed, and so needs no abort.
    func purge(_ hidden: HiddenKeys, isCompleted: Bool) async {
        guard let found = try? await client.list(client.address.key(hidden.folder)).objects else { return }
        try? await remove(found, isCompleted: isCompleted)
    }

    /// Removes the hidden objects of all generations of a job, except `kept`.
    func purge(job: String, but kept: String?) async throws(StoreRefusal) {
        let found = try await client.list(client.address.key(HiddenKeys.prefix(ofJob: job))).objects
        try await remove(found.filter { parse($0.key).map { $0.keys.generation != kept } ?? false }, isCompleted: false)
    }

    private func parse(_ key: String) -> (keys: HiddenKeys, kind: HiddenKeys.Kind)? {
        HiddenKeys.parse(String(key.dropFirst(client.address.key("").utf8.count)))
    }

    private func remove(_ objects: [ListedObject], isCompleted: Bool) async throws(StoreRefusal) {
        for object in objects {
            guard !isCompleted, case .upload(let id)? = parse(object.key)?.kind else { continue }
            // The `u.` object has gone. Without the key, the upload is left to the sweep.
            guard let key = try await client.get(object.key, limit: 4096) else { continue }
            try await client.abort(id, String(decoding: key, as: UTF8.self))
        }
        // `owner` goes last: as long as the folder exists, its owner is known.
        for object in objects.sorted(by: { $0.key > $1.key }) where parse(object.key)?.kind != .owner {
            try await client.delete(object.key)
        }
        for object in objects where parse(object.key)?.kind == .owner { try await client.delete(object.key) }
    }

    // MARK: The sweep

    /// Marks the path of a leftover that is an upload without a `u.` object.
    private static let stray = "upload:"

    package func leftovers(olderThan age: Int64) async -> [Leftover] {
        guard let (objects, now) = try? await client.list(client.address.key(HiddenKeys.root)) else { return [] }
        var known: Set<String> = []
        var folders: [HiddenKeys: [ListedObject]] = [:]
        for object in objects {
            guard let (keys, kind) = parse(object.key) else { continue }
            if case .upload(let id) = kind { known.insert(id) }
            folders[keys, default: []].append(object)
        }
        var found = folders.map { keys, objects in leftover(keys, objects, now) }
        // Uploads without a `u.` object: a worker died before it wrote that, or another program began them. Their key
        // is no job's, so they are removed only after the longest age.
        let uploads = (try? await client.uploads(client.address.key(""))) ?? []
        found += uploads.filter { !known.contains($0.id) }.map { upload in
            Leftover(
                path: Self.stray + upload.id + "\n" + upload.key, key: Hexadecimal.text(Digest.sha256(upload.id.utf8)),
                generation: upload.id, isPlaced: false, version: .init(upload.begun, 0), age: now - upload.begun)
        }
        return found.filter { $0.age > age }
    }

    private func leftover(_ keys: HiddenKeys, _ objects: [ListedObject], _ now: Int64) -> Leftover {
        let newest = objects.map(\.modified).max() ?? 0
        let text = objects.map { "\($0.key)\n\($0.etag)\n\($0.size)" }.sorted().joined(separator: "\n")
        let digest = Digest.md5(text.utf8).prefix(8).reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
        return Leftover(
            path: keys.folder, key: keys.job, generation: keys.generation, isPlaced: false,
            version: .init(newest, Int64(bitPattern: digest)), age: now - newest)
    }

    package func remove(_ leftovers: [Leftover]) async -> [Leftover] {
        var removed: [Leftover] = []
        for leftover in leftovers where await remove(leftover) { removed.append(leftover) }
        return removed
    }

    private func remove(_ found: Leftover) async -> Bool {
        do throws(StoreRefusal) {
            if found.path.hasPrefix(Self.stray) {
                let parts = found.path.dropFirst(Self.stray.count).split(separator: "\n", maxSplits: 1)
                guard parts.count == 2 else { return false }
                try await client.abort(String(parts[0]), String(parts[1]))
                return true
            }
            let keys = HiddenKeys(job: found.key, generation: found.generation)
            let (objects, now) = try await client.list(client.address.key(keys.folder))
            guard !objects.isEmpty, leftover(keys, objects, now).version == found.version else { return false }
            try await remove(objects, isCompleted: false)
            return true
        } catch { return false }
    }
}
