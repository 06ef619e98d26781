package import HaulContract

// How resume points, finished files and responses are written as fields of a job's hash.

extension Entity {
    var fields: [(String, String)] {
        [
            ("etag", etag ?? ""), ("last_modified", lastModified ?? ""),
            ("last_modified_strong", lastModifiedIsStrong ? "1" : ""), ("total", total.map(String.init) ?? ""),
            ("encoding", encoding), ("digest", digest?.description ?? ""), ("resource", resource),
        ]
    }

    init(hash: [String: String]) {
        self.init(
            etag: hash["etag"].nonEmpty, lastModified: hash["last_modified"].nonEmpty,
            lastModifiedIsStrong: hash["last_modified_strong"] == "1", total: hash["total"].flatMap { Int64($0) },
            encoding: hash["encoding"] ?? "", digest: hash["digest"].flatMap { Job.Checksum($0) },
            resource: hash["resource"] ?? "")
    }
}

extension ResumePoint {
    /// All fields; the offsets have a key of their own.
    package var fields: [(String, String)] {
        let checks = blockChecks.sorted { $0.key < $1.key }.map { "\($0.key)=\($0.value)" }.joined(separator: " ")
        return entity.fields + [
            ("generation", generation), ("store", store), ("file", file), ("source", source),
            ("final_url", finalURL), ("mixed", isMixed ? "1" : "0"), ("block_checks", checks),
            ("store_state", storeState),
            ("provenance", Provenance(resource: sourceResource, contentType: contentType).text(of: generation)),
        ]
    }

    package init?(hash: [String: String], offsets: [String: String]) {
        guard let generation = hash["generation"].nonEmpty else { return nil }
        // An upload is in no store, and an empty value is an absent field.
        self.init(
            generation: generation, store: hash["store"] ?? "", file: hash["file"] ?? "", entity: Entity(hash: hash),
            source: hash["source"] ?? "",
            finalURL: hash["final_url"] ?? "", isMixed: hash["mixed"] == "1", storeState: hash["store_state"] ?? "")
        let provenance = Provenance(hash["provenance"], of: generation)
        (sourceResource, contentType) = (provenance.resource, provenance.contentType)
        for (start, end) in offsets {
            guard let start = Int64(start), let end = Int64(end), start >= 0, start < end else { continue }
            self.offsets.insert(start..<end)
        }
        for check in (hash["block_checks"] ?? "").split(separator: " ") {
            let parts = check.split(separator: "=")
            if parts.count == 2, let end = Int64(parts[0]), let crc = UInt32(parts[1]) { blockChecks[end] = crc }
        }
    }
}

extension CompletedFile {
    package var fields: [(String, String)] {
        entity.fields + [
            ("file", file), ("received", String(bytes)), ("store", store), ("inode", String(inode)),
            ("mtime", String(modified)), ("validated", String(validated)), ("checksum", checksum ?? ""),
            ("source", source), ("generation", ""), ("store_state", ""), ("bytes", ""), ("completed_file", ""),
            ("content_type", contentType ?? ""),
            ("provenance", Provenance(resource: sourceResource).textIfAny(of: name)),
        ]
    }

    /// Tells the file from any other file that the job had.
    private var name: String { "\(inode)-\(modified)" }

    package init?(hash: [String: String]) {
        // While the job runs again, `received` counts bytes of the next file, which may be elsewhere.
        let (store, place) = Self.location(in: hash) ?? (hash["store"] ?? "", hash["file"])
        guard let file = place, let bytes = (hash["bytes"].nonEmpty ?? hash["received"]).flatMap({ Int64($0) }),
            let inode = hash["inode"].flatMap({ UInt64($0) }), let modified = hash["mtime"].flatMap({ Int64($0) })
        else { return nil }
        self.init(
            file: file, bytes: bytes, store: store, inode: inode, modified: modified,
            entity: Entity(hash: hash), source: hash["source"] ?? "", checksum: hash["checksum"].nonEmpty,
            validated: hash["validated"].flatMap { Int64($0) } ?? 0, contentType: hash["content_type"].nonEmpty)
        // A run that was cancelled had begun to fetch another version, or another URL.
        if Provenance.isAboutOther(hash["provenance"], than: name) { (entity, source) = (Entity(), "") }
        sourceResource = Provenance(hash["provenance"], of: name).resource
    }

    /// Where the finished file is, if a push since its end has recorded that (Lua/claim/pushes.lua). The value names its
    /// file, because a run that failed may have written the place of another one.
    private static func location(in hash: [String: String]) -> (store: String, file: String?)? {
        let parts = (hash["completed_file"] ?? "").split(separator: " ", maxSplits: 2)
        guard parts.count == 3, parts[0] == "\(hash["inode"] ?? "")-\(hash["mtime"] ?? "")" else { return nil }
        return (String(parts[1]), String(parts[2]))
    }
}

extension StoredResponse {
    package var fields: [(String, String)] {
        let text = text
        return [
            ("status", String(status)), ("headers", headersText), ("body", text ?? ""),
            ("body_base64", text == nil ? Base64.encode(body) : ""), ("received", String(bytes)),
            ("total", String(bytes)), ("etag", validator("etag") ?? ""),
            ("last_modified", validator("last-modified") ?? ""), ("request_digest", requestDigest), ("method", method),
            ("validated", String(validated)), ("files", files ?? ""), ("response_dropped", ""),
            ("provenance", Provenance(resource: resource).textIfAny(of: String(validated))),
        ]
    }

    /// Fields that remove an earlier response from the hash.
    static let noFields = [
        "status", "headers", "body", "body_base64", "request_digest", "method", "files", "response_dropped",
        "provenance",
    ].map { ($0, "") }

    /// The number of bytes that the event reports: what was sent of an upload, else the size of the body.
    package var bytes: Int64 { uploaded ?? Int64(body.count) }

    /// nil if the job got no response, or if its response was dropped.
    package init?(hash: [String: String]) {
        guard let status = hash["status"].flatMap({ Int($0) }), let requestDigest = hash["request_digest"].nonEmpty
        else {
            return nil
        }
        let headers = hash["headers"].nonEmpty.flatMap { try? JSON($0) }?.members ?? []
        let body = hash["body_base64"].nonEmpty.flatMap { Base64.decode($0.utf8) } ?? Array((hash["body"] ?? "").utf8)
        self.init(
            status: status,
            headers: headers.compactMap { field in field.value.string.map { HeaderField(field.name, $0) } },
            body: body, requestDigest: requestDigest, method: hash["method"] ?? "",
            validated: hash["validated"].flatMap { Int64($0) } ?? 0)
        resource = Provenance(hash["provenance"], of: String(validated)).resource
    }
}

extension String? {
    var nonEmpty: String? { self.flatMap { $0.isEmpty ? nil : $0 } }
}
