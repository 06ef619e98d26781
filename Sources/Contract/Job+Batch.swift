extension Job {
    /// A set of jobs that are counted together: docs/guides/batches.md.
    public struct Batch: Sendable, Equatable {
        /// 1 to 128 of `A-Z a-z 0-9 . _ : -`.
        public var name: String
        /// The number of jobs. The batch ends when so many jobs have ended. nil if another job of the batch gives it.
        public var size: Int?
        /// The name of a list `haul:{QUEUE}:reply:<replyTo>` onto which the batch's final event is pushed.
        public var replyTo: String?

        /// The batch with this name. Any of its jobs may give its size and add a list for the reply.
        public init(_ name: String, size: Int? = nil, replyTo: String? = nil) {
            (self.name, self.size, self.replyTo) = (name, size, replyTo)
        }
    }
}

extension Job.Batch {
    /// The maximum number of jobs of a batch.
    package static let maxSize: Int64 = 100_000
    package static let rule =
        "must be a name of 1 to 128 of the characters A-Z a-z 0-9 . _ : -, or an object of a name, and perhaps size "
        + "(from 1 to \(maxSize)) and reply_to"

    /// Reads the value of a job's field `batch`. nil if the value breaks `rule`.
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
            case "size": guard member.value.integer.map((1...Self.maxSize).contains) == true else { return nil }
            default: return nil
            }
        }
    }

    /// The value of a job's field `batch`: a string if there is only a name, else an object.
    var text: String {
        guard size != nil || replyTo != nil else { return JSON.quoted(name) }
        var object = JSONObject()
        object.set("name", name)
        object.set("size", size.map { Int64($0) })
        object.set("reply_to", replyTo)
        return object.text
    }
}
