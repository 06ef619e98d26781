import HaulContract
import HaulHTTP

/// Tests everything that Haul requires of a bucket.
package struct StoreCheck: Sendable {
    package enum Verdict: String, Sendable {
        case good
        /// Haul works without it.
        case lacking
        /// No worker can work there.
        case bad
    }

    package struct Finding: Sendable {
        package let what: String
        package let verdict: Verdict
        package let found: String
        /// What it means for Haul; empty if it means nothing.
        package let consequence: String

        init(_ what: String, _ verdict: Verdict, _ found: String, _ consequence: String = "") {
            (self.what, self.verdict, self.found, self.consequence) = (what, verdict, found, consequence)
        }
    }

    private let store: ObjectStore
    private var client: BucketClient { store.client }
    private let folder: String

    package init(_ store: ObjectStore) {
        self.store = store
        folder = store.client.address.key(
            "\(HiddenKeys.root)check-\(String(UInt64.random(in: 0...(.max)), radix: 16))/")
    }

    /// Runs all tests. Returns what they found, after the objects of the tests are removed.
    package func run() async -> [Finding] {
        var findings: [Finding] = []
        do throws(StoreError) {
            findings += try await basics()
        } catch {
            findings.append(
                Finding("requests", .bad, error.summary, "a worker waits (waiting: store) until it is repaired"))
            await clean()
            return findings
        }
        findings.append(clock())
        for (what, body) in [
            ("PUT If-None-Match", conditionalPut), ("PUT If-Match", conditionalReplacement),
            ("DELETE If-Match", conditionalDeletion), ("signatures expire", expiry),
        ] as [(String, () async throws(StoreError) -> [Finding])] {
            findings += await part(what, body)
        }
        findings += await part("Content-MD5", digests)
        findings += await part("parts", uploads)
        findings += await part("copy on the server", copies)
        findings.append(await lifecycle())
        await clean()
        return findings
    }

    /// One test. If it cannot be run, the others are.
    private func part(
        _ what: String, _ body: () async throws(StoreError) -> [Finding]
    ) async -> [Finding] {
        do throws(StoreError) { return try await body() } catch {
            return [Finding(what, .bad, error.summary, "jobs that need it fail")]
        }
    }

    private func key(_ name: String) -> String { folder + name }

    private func put(_ name: String, _ bytes: [UInt8], ifAbsent: Bool = false) async throws(StoreError) {
        try await client.put(
            key(name), RequestMemory(bytes), md5: Digest.md5(bytes), mark: mark, ifAbsent: ifAbsent)
    }

    private var mark: ObjectMark { ObjectMark(job: "check", generation: "check", time: 1) }

    /// The error of `body`, an `operation`; nil if it succeeds.
    ///
    /// - Throws: The error, if there was no response from the server, or if the credentials or the policy deny the
    ///   operation: the server has not looked at what is tested.
    private func refused(
        _ operation: String, _ body: () async throws(StoreError) -> Void
    ) async throws(StoreError) -> StoreError? {
        do {
            try await naming(operation) { () throws(StoreError) in try await body() }
            return nil
        } catch {
            // Without a response there is no result.
            if error.status == 0 || error.kind == .denied { throw error }
            return error
        }
    }

    /// Runs `body`. If it is denied, the message of the error names the `operation`.
    private func naming<Result>(
        _ operation: String, _ body: () async throws(StoreError) -> Result
    ) async throws(StoreError) -> Result {
        do { return try await body() } catch {
            guard error.kind == .denied else { throw error }
            throw StoreError(
                status: error.status, code: error.code,
                message: "\(operation) is denied: check the credentials and the policy", kind: .denied)
        }
    }

    /// An operation whose signature is in the query.
    private func presigned(_ operation: String) -> String { "\(operation) with its signature in the query" }

    private func basics() async throws(StoreError) -> [Finding] {
        try await naming("PutObject") { () throws(StoreError) in try await put("object", [1, 2, 3]) }
        let source = await client.credentials.found ?? "nowhere"
        let head = try await naming("GetObject") { () throws(StoreError) in try await client.head(key("object")) }
        let listed = try await naming("ListBucket") { () throws(StoreError) in
            try await client.list(folder).objects.map(\.key)
        }
        return [
            Finding("credentials", .good, source),
            Finding("write, read, list", listed == [key("object")] ? .good : .bad, "\(listed.count) of 1 listed"),
            Finding(
                "metadata", head?.mark == mark ? .good : .bad, head?.mark == mark ? "kept" : "lost",
                head?.mark == mark ? "" : "finished objects would not be recognized"),
        ]
    }

    private func clock() -> Finding {
        let skew = client.skew
        return Finding(
            "clock", .good, skew == 0 ? "agrees" : "\(abs(skew)) s apart",
            skew == 0 ? "" : "requests are signed by the store's")
    }

    private func conditionalPut() async throws(StoreError) -> [Finding] {
        let again = try await refused(presigned("PutObject")) { () throws(StoreError) in
            try await name("object", [4], .absent)
        }
        let isKept = again?.kind == .precondition
        // A worker omits the condition only if the store says that it does not know it.
        let isUsable = isKept || again == nil || again?.kind == .unknownRequest
        return [
            Finding(
                "PUT If-None-Match", isKept ? .good : isUsable ? .lacking : .bad,
                isKept ? "one winner" : again?.summary ?? "ignored",
                isKept
                    ? ""
                    : isUsable
                        ? "if_exists looks with HEAD before it writes: an object that comes in between is replaced"
                        : "no job can be completed")
        ]
    }

    private static let wrong = NameCondition.same(String(repeating: "0", count: 32))

    private func conditionalReplacement() async throws(StoreError) -> [Finding] {
        let failure = try await refused(presigned("PutObject")) { () throws(StoreError) in
            try await name("object", [5], Self.wrong)
        }
        return [
            condition(
                .replace, failure, "a PUT that the network delivers late may replace a newer object until it expires",
                // A worker omits the condition only if the store says that it does not know it.
                orElse: .bad, "jobs that replace an object fail")
        ]
    }

    private func conditionalDeletion() async throws(StoreError) -> [Finding] {
        let failure = try await refused(presigned("DeleteObject")) { () throws(StoreError) in
            try await client.deleteFinal(key("object"), Self.wrong, seen: .now)
        }
        let consequence = "a DELETE that the network delivers late may delete a newer object until it expires"
        return [condition(.delete, failure, consequence, orElse: .lacking, consequence)]
    }

    /// What the response to a request says whose condition does not hold.
    ///
    /// - Parameters:
    ///   - consequence: What it means if the server ignores the condition, or does not know it.
    ///   - other: The verdict on any other refusal.
    private func condition(
        _ request: ConditionalRequest, _ failure: StoreError?, _ consequence: String, orElse other: Verdict,
        _ otherConsequence: String
    ) -> Finding {
        switch failure?.kind {
        case nil: Finding(request.rawValue, .lacking, "ignored", consequence)
        case .precondition: Finding(request.rawValue, .good, "refused")
        case .unknownRequest: Finding(request.rawValue, .lacking, failure!.summary, consequence)
        default: Finding(request.rawValue, other, failure!.summary, otherConsequence)
        }
    }

    private func expiry() async throws(StoreError) -> [Finding] {
        let late = try await refused(presigned("PutObject")) { () throws(StoreError) in
            try await name("late", [6], .none, age: 60)
        }
        return [
            Finding(
                "signatures expire", late == nil ? .lacking : .good, late == nil ? "ignored" : "refused",
                late == nil ? "a request that the network delivers late is executed, whenever it arrives" : "")
        ]
    }

    private func name(
        _ name: String, _ bytes: [UInt8], _ condition: NameCondition, age: Int64 = 0
    ) async throws(StoreError) {
        try await client.putFinal(
            key(name), RequestMemory(bytes), md5: Digest.md5(bytes), mark: mark, condition, age: age)
    }

    private func digests() async throws(StoreError) -> [Finding] {
        let failure = try await refused("PutObject") { () throws(StoreError) in
            var request = StoreRequest("PUT", key("damaged"))
            request.tries = 1
            request.carry(RequestMemory([1]), md5: Digest.md5([2]))
            _ = try await client.send(request)
        }
        return [
            Finding(
                "Content-MD5", failure == nil ? .bad : .good, failure == nil ? "ignored" : "checked",
                failure == nil ? "bytes that change on the way to the store would not be detected" : "")
        ]
    }

    private func uploads() async throws(StoreError) -> [Finding] {
        let part = [UInt8](repeating: 7, count: 5 << 20)
        let memory = RequestMemory(part)
        let md5 = Digest.md5(part)
        let upload = try await naming("CreateMultipartUpload") { () throws(StoreError) in
            try await client.create(key("parts"), mark: mark)
        }
        let first = try await client.put(part: 1, of: upload, key("parts"), memory, md5: md5)
        let last = try await client.put(
            part: 2, of: upload, key("parts"), RequestMemory([9]), md5: Digest.md5([9]))
        let listed = try await naming("ListMultipartUploadParts") { () throws(StoreError) in
            try await client.parts(of: upload, key("parts"))
        }
        let isListed = Set(listed.map(\.etag)) == [first, last]
        let uploads = try await naming("ListBucketMultipartUploads") { () throws(StoreError) in
            try await client.uploads(folder)
        }
        try await put("parts", [1])
        let completion = presigned("CompleteMultipartUpload")
        let failure = try await refused(completion) { () throws(StoreError) in
            try await client.complete(upload, key("parts"), [(1, first), (2, last)], .absent)
        }
        let isConditional = failure?.kind == .precondition
        if failure != nil {
            try await naming(completion) { () throws(StoreError) in
                try await client.complete(upload, key("parts"), [(1, first), (2, last)])
            }
        }
        let head = try await client.head(key("parts"))
        let isWhole = head?.size == Int64(part.count) + 1 && head?.mark == mark
        let aborted = try await client.create(key("aborted"), mark: mark)
        try await naming("AbortMultipartUpload") { () throws(StoreError) in
            try await client.abort(aborted, key("aborted"))
        }
        let late = try await refused("UploadPart") { () throws(StoreError) in
            _ = try await client.put(part: 1, of: aborted, key("aborted"), RequestMemory([9]), md5: Digest.md5([9]))
        }
        return [
            Finding(
                "parts", isListed && isWhole ? .good : .bad,
                isWhole ? "put, listed and completed" : "the object is not what was put"),
            Finding(
                "part's ETag", first == Hexadecimal.text(md5) ? .good : .lacking,
                first == Hexadecimal.text(md5) ? "its MD5" : "no MD5",
                first == Hexadecimal.text(md5) ? "" : "parts are checked on their way in only"),
            Finding(
                "uploads are listed", uploads.contains { $0.id == upload } ? .good : .lacking, "\(uploads.count) of 1",
                uploads.isEmpty ? "what a killed worker leaves behind needs a lifecycle rule" : ""),
            Finding(
                "complete If-None-Match", isConditional ? .good : .lacking,
                isConditional ? "refused" : failure?.summary ?? "ignored",
                isConditional
                    ? ""
                    : "claims keep large files of one name apart, but an object of at most 8 MiB, or of another program, "
                        + "that gets the name during the completion is replaced"),
            Finding(
                "abort is a fence", late == nil ? .bad : .good, late?.summary ?? "a part was accepted after it",
                late == nil ? "a late worker's parts would stay" : ""),
        ]
    }

    private func copies() async throws(StoreError) -> [Finding] {
        let other = ObjectMark(job: "check", generation: "copy", time: 2)
        let failure = try await refused("UploadPartCopy") { () throws(StoreError) in
            let upload = try await client.create(key("copy"), mark: other)
            let parts = try await client.copy(key("parts"), size: (5 << 20) + 1, to: upload, key("copy"))
            try await client.complete(upload, key("copy"), parts)
        }
        let isRight = try await client.head(key("copy"))?.mark == other
        return [
            Finding(
                "copy on the server", isRight ? .good : .bad, failure?.summary ?? (isRight ? "works" : "metadata lost"),
                isRight ? "" : "files with a checksum cannot be named")
        ]
    }

    private func lifecycle() async -> Finding {
        var request = StoreRequest("GET", "")
        request.query = [("lifecycle", "")]
        request.tries = 1
        let response = try? await client.send(request)
        let hasRule = response?.xml?.all("Rule").contains { $0["AbortIncompleteMultipartUpload"] != nil } ?? false
        return Finding(
            "lifecycle rule", hasRule ? .good : .lacking, hasRule ? "ends uploads" : "none ends uploads",
            hasRule ? "" : "workers sweep what they know of; a rule longer than the longest pause catches the rest")
    }

    private func clean() async {
        guard let objects = try? await client.list(folder).objects else { return }
        for upload in (try? await client.uploads(folder)) ?? [] { try? await client.abort(upload.id, upload.key) }
        for object in objects { try? await client.delete(object.key) }
    }
}
