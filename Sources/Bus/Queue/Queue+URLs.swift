import HaulContract
package import HaulRedis

// Finds jobs by their URLs: Lua/urls.lua.

/// The jobs that have certain URLs.
package struct JobsByURL: Sendable {
    /// For each URL the ids of its jobs, sorted.
    package fileprivate(set) var ids: [String: [String]] = [:]
    /// Those that wait in the queue, by id, so that the queue need not be searched for them again.
    package fileprivate(set) var waiting: [String: ListedJob] = [:]

    package init() {}
}

extension Queue {
    /// The digest by which a URL is found, and the id of a download that has only this URL.
    package static func digest(ofURL url: String) -> String { String(SHA1.hex(url + "\n").prefix(16)) }

    /// The jobs that have one of these URLs, whole and with its query, as their URL or as a mirror. Claimed jobs come
    /// from the index of URLs, and others from a search through the waiting elements.
    ///
    /// - Parameter searchesWaiting: False to leave out jobs that no worker has claimed yet.
    package func jobs(
        ofURLs urls: Set<String>, searchesWaiting: Bool = true
    ) async throws(RedisError) -> JobsByURL {
        guard partitions.isEmpty else {
            let all = try await each { queue throws(RedisError) in
                try await queue.jobs(ofURLs: urls, searchesWaiting: searchesWaiting)
            }
            return all.reduce(into: JobsByURL()) { joined, part in
                joined.ids.merge(part.ids) { Set($0 + $1).sorted() }
                joined.waiting.merge(part.waiting) { one, _ in one }
            }
        }
        var ids: [String: Set<String>] = [:]
        var found = JobsByURL()
        for url in urls { ids[url] = try await claimed(url) }
        if searchesWaiting {
            do throws(RedisError) {
                let waiting = try await waiting(ofURLs: urls)
                for (id, job) in waiting.all { for url in job.urls { ids[url, default: []].insert(id) } }
                found.waiting = waiting.all.filter { waiting.effective.contains($0.key) }
            } catch {
                // A user who may not read elements finds claimed jobs only.
                guard error.code == .noPermission else { throw error }
            }
        }
        found.ids = ids.mapValues { $0.sorted() }
        return found
    }

    /// How many elements one page has at most. A digest of each is kept until its end.
    private static let maxPage = 250_000

    private func claimed(_ url: String) async throws(RedisError) -> Set<String> {
        let digest = Self.digest(ofURL: url)
        var ids: Set<String> = [digest]
        if let id = try await redis.send(Command("HGET", keys[.urls], digest)).string { ids.insert(id) }
        var cursor = "0"
        repeat {
            let reply = try await redis.send(Command("HSCAN", keys[.url] + digest, cursor, "COUNT", 1000)).array ?? []
            let pairs = (reply.last?.array ?? []).compactMap(\.string)
            for index in stride(from: 0, to: pairs.count, by: 2) { ids.insert(pairs[index]) }
            cursor = reply.first?.string ?? "0"
        } while cursor != "0"
        let candidates = ids.sorted()
        // The index may name jobs that are gone or have another URL now, and the digest of a URL may be any job's id.
        let hashes = try await fields(["state", "url", "url_digests"], of: candidates)
        return Set(
            zip(candidates, hashes).filter { id, fields in
                guard fields["state"] != nil else { return false }
                if let digests = fields["url_digests"] { return digests.split(separator: " ").contains(digest[...]) }
                return id == digest && fields["url"] == MaskedURL.text(url)
            }.map(\.0))
    }

    /// The jobs whose waiting elements have one of the URLs, by id, and those of them that are queued or begin with these
    /// elements. Searches the bytes of all elements, and reads only those that may match.
    private func waiting(
        ofURLs urls: Set<String>
    ) async throws(RedisError) -> (all: [String: ListedJob], effective: Set<String>) {
        var cursor = WaitingCursor(self)
        // An element with an escape may write the URL in another way.
        let needles = [Needle("\\")] + urls.map { Needle($0) }
        let scheme = Needle("://")
        @Sendable func isPossible(_ bytes: [UInt8], base: String?) -> Bool {
            // By index, because each copy of a needle would be counted.
            needles.indices.contains { needles[$0].isIn(bytes) } || base != nil && !scheme.isIn(bytes)
        }
        var found: [String: ListedJob] = [:]
        var effective: Set<String> = []
        // The first page tells how long the elements are. The others are long, so that Redis reads without a pause.
        var (limit, piece): (Int, Int?) = (Self.minPageOfElements, nil)
        let search: Search = { elements in
            elements.indices.compactMap { position in
                guard isPossible(elements[position].bytes, base: elements[position].source.base) else { return nil }
                let element = elements[position]
                guard let json = try? JSON(element.bytes),
                    let read = try? Element(waiting: element.bytes, json, base: element.source.base)
                else { return nil }
                var job = Self.listed(element)
                job.urls = urls.intersection(read.urls)
                return job.urls.isEmpty ? nil : (position, job)
            }
        }
        while !Task.isCancelled, let page = try await cursor.next(limit: limit, inPiecesOf: piece, search) {
            let hashes = try await fields(ListedJob.decisiveFields, of: page.jobs.map(\.job.id))
            for ((_, job), fields) in zip(page.jobs, hashes) {
                if JobState.queued.describing(fields, job) != nil {
                    effective.insert(job.id)
                } else if fields["state"] == nil {
                    // It repeats a push of a job that was removed.
                    continue
                }
                // Two elements of a job may have different URLs. The newer one comes first.
                found[job.id, default: job].urls.formUnion(job.urls)
            }
            (limit, piece) = (min(cursor.count, Self.maxPage), page.next / Self.piecesOfPage)
        }
        return (found, effective)
    }
}
