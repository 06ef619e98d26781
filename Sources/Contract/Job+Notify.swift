extension Job {
    /// The webhooks of a job: requests with the event of its end, signed by Standard Webhooks. docs/guides/webhooks.md
    /// says how they are sent, and how a server verifies them.
    public struct Notify: Sendable, Equatable {
        /// An end that is reported.
        public enum Event: String, Sendable, CaseIterable {
            case completed, failed, cancelled
            /// The end of a batch. It is only reported by the default of a queue.
            case batchEnded = "batch_ended"
        }

        /// Where the events go, at most 2048 bytes.
        public var url: String
        /// The name of the secret with which they are signed. The workers have the secret itself.
        public var secret: String
        /// Which events. If empty, all.
        public var events: [Event] = []

        /// Webhooks for all ends, or for some.
        public init(_ url: String, secret: String, events: [Event] = []) {
            (self.url, self.secret, self.events) = (url, secret, events)
        }
    }
}

extension Job.Notify {
    /// Of `url`, in bytes, so that the event fits into an element.
    package static let maxURL = 2048
    package static let rule =
        "must be false, or an object of url (at most \(maxURL) bytes), secret (a name) and perhaps events (a list of "
        + Event.allCases.map(\.rawValue).joined(separator: ", ") + ")"

    /// Reads the value of a job's field `notify`. nil if it breaks `rule` or is false.
    init?(_ value: JSON) {
        guard let url = value["url"]?.string, URLRule.accepts(url), url.utf8.count <= Self.maxURL,
            let secret = value["secret"]?.string, JobField.isID(secret)
        else { return nil }
        self.init(url, secret: secret)
        for member in value.members ?? [] {
            switch member.name {
            case "url", "secret": break
            case "events":
                guard let list = member.value.array, 1...Event.allCases.count ~= list.count else { return nil }
                events = list.compactMap { $0.string.flatMap(Event.init) }
                guard events.count == list.count else { return nil }
            default: return nil
            }
        }
    }

    var text: String {
        var object = JSONObject()
        object.set("url", url)
        object.set("secret", secret)
        if !events.isEmpty {
            object.set("events", json: "[" + events.map { JSON.quoted($0.rawValue) }.joined(separator: ",") + "]")
        }
        return object.text
    }
}
