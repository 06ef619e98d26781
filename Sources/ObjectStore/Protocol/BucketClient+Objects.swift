import HaulContract
import HaulHTTP

/// What HEAD says about an object.
struct ObjectHead: Sendable {
    let size: Int64
    let etag: String?
    /// The job, the generation and the time of its writing; nil for an object that Haul did not write.
    let mark: ObjectMark?
    /// Seconds since it was written, by the server's clock.
    let age: Int64?

    init?(_ response: StoreResponse) {
        guard let size = response.headers["content-length"].flatMap({ Int64($0) }) else { return nil }
        (self.size, etag, mark) = (size, response.etag, ObjectMark(response.headers))
        let (now, modified) = (response.headers["date"], response.headers["last-modified"])
        age = now.flatMap(HTTPDate.parse).flatMap { now in modified.flatMap(HTTPDate.parse).map { now - $0 } }
    }
}

/// The condition on a name under which a request gives or removes it. If it does not hold, the server refuses the
/// request.
enum NameCondition: Sendable, Equatable {
    case none
    /// No object has the name.
    case absent
    /// The object of the name has this ETag.
    case same(String)
}

// The requests to a bucket.
extension BucketClient {
    /// nil if there is no such object.
    func head(_ key: String) async throws(StoreError) -> ObjectHead? {
        let response: StoreResponse
        do { response = try await send(StoreRequest("HEAD", key)) } catch {
            if error.kind == .noSuchObject { return nil }
            throw error
        }
        // Whoever takes this for a missing object may replace it.
        guard let head = ObjectHead(response) else { throw Self.unreadable(response) }
        return head
    }

    /// The bytes of an object or of a range of it; nil if there is no such object.
    ///
    /// - Parameter limit: The maximum bytes of the object or the range.
    func get(_ key: String, _ range: Range<Int64>? = nil, limit: Int) async throws(StoreError) -> [UInt8]? {
        var request = StoreRequest("GET", key)
        request.limit = limit
        if let range { request.headers = [HeaderField("Range", "bytes=\(range.lowerBound)-\(range.upperBound - 1)")] }
        do { return try await send(request).body } catch {
            if error.kind == .noSuchObject { return nil }
            throw error
        }
    }

    /// A range of an object, which must have this ETag.
    ///
    /// - Throws: `precondition` if the object has another ETag.
    func get(_ key: String, _ range: Range<Int64>, ifMatch etag: String) async throws(StoreError) -> [UInt8] {
        var request = StoreRequest("GET", key)
        request.limit = range.count
        request.headers = [
            HeaderField("Range", "bytes=\(range.lowerBound)-\(range.upperBound - 1)"),
            HeaderField("If-Match", "\"\(etag)\""),
        ]
        let response = try await send(request)
        // Not every server obeys If-Match.
        guard response.etag == etag else {
            throw StoreError(status: 412, code: "PreconditionFailed", message: "", kind: .precondition)
        }
        guard response.body.count == range.count else { throw Self.unreadable(response) }
        return response.body
    }

    /// Puts an object. Returns its ETag, if the server sends one.
    ///
    /// - Throws: `precondition` if `ifAbsent` is set and the object exists.
    @discardableResult
    func put(
        _ key: String, _ memory: RequestMemory, md5: [UInt8], mark: ObjectMark? = nil, ifAbsent: Bool = false
    ) async throws(StoreError) -> String? {
        var request = StoreRequest("PUT", key)
        request.headers = mark?.fields ?? []
        if ifAbsent { request.headers.append(HeaderField("If-None-Match", "*")) }
        request.carry(memory, md5: md5)
        return try await send(request).etag
    }

    /// Puts an object under its final name. The request is sent once, and expires. Returns the ETag, if the server
    /// sends one.
    @discardableResult
    func putFinal(
        _ key: String, _ memory: RequestMemory, md5: [UInt8], mark: ObjectMark, _ condition: NameCondition,
        age: Int64 = 0
    ) async throws(StoreError) -> String? {
        var request = StoreRequest("PUT", key)
        request.age = age
        request.headers = mark.fields + fields(of: condition)
        request.carry(memory, md5: md5)
        request.presign()
        return try await send(request).etag
    }

    private func fields(of condition: NameCondition) -> [HeaderField] {
        switch condition {
        case .none: []
        case .absent: [HeaderField("If-None-Match", "*")]
        case .same(let etag): [ifMatch(etag)]
        }
    }

    /// Deletes a finished object that was seen at the time `seen`. The request is sent once, and expires.
    func deleteFinal(
        _ key: String, _ condition: NameCondition, seen: ContinuousClock.Instant
    ) async throws(StoreError) {
        var request = StoreRequest("DELETE", key)
        (request.headers, request.seen) = (fields(of: condition), seen)
        request.presign()
        _ = try await send(request)
    }

    func put(_ key: String, text: String, tries: Int = RequestBackoff.tries) async throws(StoreError) {
        var request = StoreRequest("PUT", key)
        request.tries = tries
        request.carry(text)
        _ = try await send(request)
    }

    /// Puts a text only as long as `check` does not throw, which is called before each try. Each try expires.
    func put(
        _ key: String, text: String, checking check: () async throws(StoreError) -> Void
    ) async throws(StoreError) {
        var request = StoreRequest("PUT", key)
        request.carry(text)
        request.presign()
        request.tries = RequestBackoff.tries
        _ = try await send(request) { () throws(StoreError) in
            try await waitForTurn()
            try await check()
        }
    }

    /// Deletes an object. An object that does not exist is not an error.
    func delete(_ key: String) async throws(StoreError) {
        do { _ = try await send(StoreRequest("DELETE", key)) } catch {
            if error.kind != .noSuchObject { throw error }
        }
    }

    /// All objects whose keys begin with `prefix`, in pages of 1,000, and the server's time in seconds since 1970.
    func list(_ prefix: String) async throws(StoreError) -> (objects: [ListedObject], now: Int64) {
        var objects: [ListedObject] = []
        var now = time
        var token: String?
        var pages = 0
        repeat {
            try Self.countPage(&pages)
            var request = StoreRequest("GET", "")
            request.query = [("list-type", "2"), ("prefix", prefix), ("max-keys", "1000"), ("encoding-type", "url")]
            if let token { request.query.append(("continuation-token", token)) }
            let response = try await send(request)
            guard let xml = response.xml, xml.name == "ListBucketResult" else { throw Self.unreadable(response) }
            if let date = response.headers["date"].flatMap(HTTPDate.parse) { now = date }
            let isEncoded = xml.text("EncodingType") == "url"
            for entry in xml.all("Contents") {
                guard let sent = entry.text("Key"),
                    let key = isEncoded ? ListedKey.decoded(sent) : sent,
                    let modified = entry.text("LastModified").flatMap(AmazonTime.seconds)
                else { continue }
                objects.append(
                    ListedObject(
                        key: key, size: entry.text("Size").flatMap { Int64($0) } ?? 0,
                        etag: entry.text("ETag").flatMap(StoreResponse.unquoted) ?? "", modified: modified))
            }
            token = xml.text("IsTruncated") == "true" ? xml.text("NextContinuationToken") : nil
        } while token != nil
        return (objects, now)
    }

    // MARK: Uploads of parts

    /// Begins a multipart upload. Returns its id.
    ///
    /// - Parameter prepare: Runs before each try, because each try may begin an upload whose id is lost with its reply.
    func create(
        _ key: String, mark: ObjectMark, preparing prepare: () async throws(StoreError) -> Void = {}
    ) async throws(StoreError) -> String {
        var request = StoreRequest("POST", key)
        request.query = [("uploads", "")]
        request.headers = mark.fields
        // What `prepare` records covers one upload.
        request.isSentOnce = true
        let response = try await send(request, preparing: prepare)
        guard let id = response.xml?.text("UploadId"), !id.isEmpty, id.utf8.count <= StoreResponse.maxToken else {
            throw Self.unreadable(response)
        }
        return id
    }

    /// The code of the error that `put(part:)` throws if the store has other bytes than it got.
    static let otherPart = "OtherPart"

    /// Puts a part. Returns its ETag, which is its MD5 on most servers.
    ///
    /// - Throws: The code `otherPart` if the ETag is an MD5, and not that of the part. The upload has that part now.
    func put(
        part number: Int, of upload: String, _ key: String, _ memory: RequestMemory, md5: [UInt8]
    ) async throws(StoreError) -> String {
        var request = StoreRequest("PUT", key)
        request.query = [("partNumber", "\(number)"), ("uploadId", upload)]
        request.carry(memory, md5: md5)
        let response = try await send(request)
        guard let etag = response.etag else { throw Self.unreadable(response) }
        // With server-side encryption by KMS keys the ETag is not an MD5.
        let isEncrypted = response.headers["x-amz-server-side-encryption"]?.hasPrefix("aws:kms") ?? false
        let isDigest = etag.utf8.count == 32 && etag.utf8.allSatisfy { Character(UnicodeScalar($0)).isHexDigit }
        if isDigest, !isEncrypted, etag.lowercased() != Hexadecimal.text(md5) {
            throw StoreError(
                status: 200, code: Self.otherPart, message: "the part's ETag is not the MD5 of what was sent",
                kind: .transient)
        }
        return etag
    }

    /// The parts that an upload has.
    ///
    /// - Throws: `noSuchUpload` if the upload was completed, aborted or never begun.
    func parts(of upload: String, _ key: String) async throws(StoreError) -> [ListedPart] {
        var parts: [ListedPart] = []
        var marker: String?
        var pages = 0
        repeat {
            try Self.countPage(&pages)
            var request = StoreRequest("GET", key)
            request.query = [("uploadId", upload), ("max-parts", "1000")]
            if let marker { request.query.append(("part-number-marker", marker)) }
            let response: StoreResponse
            do { response = try await send(request) } catch {
                // Some servers respond with 404 without the code NoSuchUpload.
                throw error.kind == .noSuchObject
                    ? StoreError(
                        status: error.status, code: error.code, message: error.message, kind: .noSuchUpload)
                    : error
            }
            guard let xml = response.xml, ["ListPartsResult", "ListPartsResponse"].contains(xml.name) else {
                throw Self.unreadable(response)
            }
            for entry in xml.all("Part") {
                guard let number = entry.text("PartNumber").flatMap({ Int($0) }),
                    let etag = entry.text("ETag").flatMap(StoreResponse.unquoted)
                else { continue }
                parts.append(
                    ListedPart(number: number, etag: etag, size: entry.text("Size").flatMap { Int64($0) } ?? 0))
            }
            let next = xml.text("IsTruncated") == "true" ? xml.text("NextPartNumberMarker") : nil
            // A server that repeats its marker would get requests forever.
            marker = next == marker ? nil : next
        } while marker != nil
        return parts
    }

    /// Requests the completion of an upload once. The response is not reliable: HEAD shows whether the object exists.
    func complete(
        _ upload: String, _ key: String, _ parts: [(number: Int, etag: String)], _ condition: NameCondition = .none
    ) async throws(StoreError) {
        var request = StoreRequest("POST", key)
        request.query = [("uploadId", upload)]
        request.timeout = 120
        request.headers = fields(of: condition)
        let list = parts.map { part in
            "<Part><PartNumber>\(part.number)</PartNumber><ETag>&quot;\(XMLElement.escape(part.etag))&quot;</ETag></Part>"
        }
        request.carry(
            "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\(list.joined())"
                + "</CompleteMultipartUpload>")
        request.presign()
        _ = try await send(request)
    }

    /// Aborts an upload, up to five times, until it has no parts: a part may still arrive after the first abort.
    ///
    /// - Throws: Even if it still has parts then, because it is not fenced.
    func abort(_ upload: String, _ key: String) async throws(StoreError) {
        for _ in 0..<5 {
            var request = StoreRequest("DELETE", key)
            request.query = [("uploadId", upload)]
            do { _ = try await send(request) } catch {
                if error.kind == .noSuchUpload || error.kind == .noSuchObject { return }
                throw error
            }
            do {
                if try await parts(of: upload, key).isEmpty { return }
            } catch {
                if error.kind == .noSuchUpload { return }
                throw error
            }
            try? await Task.sleep(for: .milliseconds(100))
        }
        throw StoreError(
            status: 0, code: "StillThere", message: "an aborted upload still has parts", kind: .transient)
    }

    func uploads(_ prefix: String) async throws(StoreError) -> [ListedUpload] {
        var uploads: [ListedUpload] = []
        var markers: (key: String, id: String)?
        var pages = 0
        repeat {
            try Self.countPage(&pages)
            var request = StoreRequest("GET", "")
            request.query = [("uploads", ""), ("prefix", prefix), ("max-uploads", "1000"), ("encoding-type", "url")]
            if let markers {
                request.query += [("key-marker", markers.key), ("upload-id-marker", markers.id)]
            }
            let response = try await send(request)
            guard let xml = response.xml, xml.name == "ListMultipartUploadsResult" else {
                throw Self.unreadable(response)
            }
            let isEncoded = xml.text("EncodingType") == "url"
            for entry in xml.all("Upload") {
                guard let key = entry.text("Key"), let id = entry.text("UploadId") else { continue }
                let begun = entry.text("Initiated").flatMap(AmazonTime.seconds) ?? time
                uploads.append(ListedUpload(sent: key, isEncoded: isEncoded, id: id, begun: begun))
            }
            let marker = ListedUpload(
                sent: xml.text("NextKeyMarker") ?? "", isEncoded: isEncoded, id: xml.text("NextUploadIdMarker") ?? "",
                begun: 0)
            let next = (key: marker.key, id: marker.id)
            let isMore = xml.text("IsTruncated") == "true" && !next.key.isEmpty
            markers = isMore && (markers.map { $0 != next } ?? true) ? next : nil
        } while markers != nil
        return uploads
    }

    /// Copies an object of `size` bytes into the parts of an upload. Returns the parts.
    func copy(
        _ source: String, size: Int64, to upload: String, _ key: String
    ) async throws(StoreError) -> [(number: Int, etag: String)] {
        var parts: [(number: Int, etag: String)] = []
        // One request can copy at most 5 GiB.
        let step = max(Int64(1) << 30, (size + 8_999) / 9_000)
        for (index, start) in stride(from: 0, to: size, by: Int(step)).enumerated() {
            var request = StoreRequest("PUT", key)
            request.timeout = 300
            request.query = [("partNumber", "\(index + 1)"), ("uploadId", upload)]
            request.headers = [
                HeaderField("x-amz-copy-source", URIText.path("/\(address.bucket)/\(source)")),
                HeaderField("x-amz-copy-source-range", "bytes=\(start)-\(min(size, start + step) - 1)"),
            ]
            let response = try await send(request)
            guard let etag = response.xml?.text("ETag").flatMap(StoreResponse.unquoted) else {
                throw Self.unreadable(response)
            }
            parts.append((index + 1, etag))
        }
        return parts
    }

    /// The pages of a listing: a million entries. A server that always announces a further page
    /// would get requests forever.
    private static let maxPages = 1000

    /// Counts a page of a listing.
    ///
    /// - Throws: If there are too many.
    private static func countPage(_ pages: inout Int) throws(StoreError) {
        pages += 1
        guard pages <= maxPages else {
            throw StoreError(
                status: 200, code: "EndlessListing", message: "a listing has more than \(maxPages) pages",
                kind: .permanent)
        }
    }

    private static func unreadable(_ response: StoreResponse) -> StoreError {
        StoreError(
            status: response.status, code: "unreadable", message: "the response is not valid for S3",
            kind: .transient)
    }
}
