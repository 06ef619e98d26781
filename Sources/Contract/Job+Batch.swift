extension Job {
    /// A set of jobs that are counted together: docs/bus.md, "Batches".
    public struct Batch: Sendable, Equatable {
        /// 1 to 128 of `A-Z a-z 0-9 . _ : -`.
        public var name: String
        /// How many jobs the batch has. It is over when so many have ended. nil leaves it to other jobs of the batch to say it.
        public var size: Int?
        /// The batch's final event is also pushed onto the list `haul:{QUEUE}:reply:<replyTo>`.
        public var replyTo: String?

        /// A batch by its name; what is said of it besides, any of its jobs may say.
        public init(_ name: String, size: Int? = nil, replyTo: String? = nil) {
            (self.name, self.size, self.replyTo) = (name, size, replyTo)
        }
    }
}

extension Job.Batch {
    /// A batch has at most so many jobs.
    package static let largest: Int64 = 100_000
    package static let rule =
        "must be a name of 1 to 128 of the characters A-Z a-z 0-9 . _ : -, or an object of a name, and perhaps size "
        + "(from 1 to \(largest)) and reply_to"

    /// nil for what is no batch.
    init?(_ value: JSON) {
        if let name = value.string {
            guard JobField.isID(name) else { return nil }
            self.init(name)
            return
        }
        guard let members = value.members, let name = value["name"]?.string else { return nil }
        self.init(name, size: value["size"]?.integer.map { Int($0) }, replyTo: value["reply_to"]?.string)
        for member in members {
            switch member.name {
            case "name", "reply_to": guard member.value.string.map(JobField.isID) == true else { return nil }
            case "size": guard member.value.integer.map((1...Self.largest).contains) == true else { return nil }
            default: return nil
            }
        }
    }

    /// As a job says it: a text where the name is all.
    var text: String {
        guard size != nil || replyTo != nil else { return JSON.quoted(name) }
        var object = JSONObject()
        object.set("name", name)
        object.set("size", size.map { Int64($0) })
        object.set("reply_to", replyTo)
        return object.text
    }
}
