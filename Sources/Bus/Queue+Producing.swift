package import HaulContract
package import HaulRedis

/// An element ready to be pushed, and the id that it will have.
package struct Element: Sendable {
    package let id: String
    package let text: String
    /// The first of its URLs, without secrets.
    package let maskedURL: String
    /// `at`.
    let moment: Int64?

    /// The id is worked out as the claim does: as given, else from the URL and the path, or from the whole element if
    /// more than those decide what is downloaded.
    package init(_ json: JSON) throws(Job.Invalid) {
        let job = try Job(json: json)
        moment = job.at
        text = json.text
        try Job.checkSize(text.utf8)
        maskedURL = MaskedURL.text(job.urls[0])
        if let id = job.id {
            self.id = id
        } else if json["method"] != nil || json["headers"] != nil || json["urls"] != nil {
            id = String(SHA1.hex(text).prefix(16))
        } else {
            id = String(SHA1.hex(job.urls[0] + "\n" + (job.path ?? "")).prefix(16))
        }
    }
}

extension Element {
    /// The same push with the time at which it is made, unless it tells one. An id that would follow from the whole element
    /// stays what it was.
    package func made(at moment: Int64) -> Element {
        guard let json = try? JSON(text), json["at"] == nil else { return self }
        var members = (json.members ?? []).map { "\(JSON.quoted($0.name)):\($0.raw)" }
        if json["id"] == nil { members.append("\"id\":\(JSON.quoted(id))") }
        members.append("\"at\":\(moment)")
        return (try? Element(JSON("{\(members.joined(separator: ","))}"))) ?? self
    }
}

extension Queue {
    /// Puts jobs at the end of the line, each with the moment at which it is pushed, by Redis' clock: so they are in one
    /// order with requests. Returns these moments by the jobs' ids.
    @discardableResult
    package func push(now elements: [Element]) async throws(RedisError) -> [String: Int64] {
        let moment = try await moment()
        let made = elements.map { $0.made(at: moment) }
        try await push(made)
        return Dictionary(made.map { ($0.id, $0.moment ?? moment) }) { max($0, $1) }
    }

    /// Puts jobs at the end of the line: one plain LPUSH.
    package func push(_ elements: [Element]) async throws(RedisError) {
        for batch in stride(from: 0, to: elements.count, by: 500) {
            let texts = elements[batch..<min(batch + 500, elements.count)].map(\.text)
            try await redis.send(Command(arguments: ["LPUSH", keys.jobs] + texts))
        }
    }
}
