import HaulContract
import HaulHTTP
import HaulStorage

/// The metadata that says who wrote an object. It is gone when another program writes the object, so an object that has
/// it is complete and the job's own.
struct ObjectMark: Sendable, Equatable {
    /// The job: 40 hexadecimal digits.
    let job: String
    let generation: String
    /// When the mark was made, in nanoseconds since 1970.
    let time: Int64

    init(job: String, generation: String, time: Int64) {
        (self.job, self.generation, self.time) = (job, generation, time)
    }

    /// nil if Haul did not write the object.
    init?(_ headers: HeaderFields) {
        guard let job = headers["x-amz-meta-haul-job"], let generation = headers["x-amz-meta-haul-generation"],
            let time = headers["x-amz-meta-haul-time"].flatMap({ Int64($0) })
        else { return nil }
        self.init(job: job, generation: generation, time: time)
    }

    var fields: [HeaderField] {
        [
            HeaderField("x-amz-meta-haul-generation", generation), HeaderField("x-amz-meta-haul-job", job),
            HeaderField("x-amz-meta-haul-time", String(time)),
        ]
    }

    /// A number that no other object has, instead of an inode.
    var identity: UInt64 {
        Digest.md5("\(job)\n\(generation)\n\(time)".utf8).prefix(8).reduce(0) { $0 << 8 | UInt64($1) }
    }
}

extension ObjectHead {
    /// Whether a run of this generation made the object, and it is not the one that its job has completed.
    func isNamed(by hidden: HiddenKeys, unless completed: FinishedIdentity?) -> Bool {
        mark?.job == hidden.job && mark?.generation == hidden.generation && completed.map { !matches($0) } ?? true
    }

    func matches(_ identity: FinishedIdentity) -> Bool {
        guard let mark, mark.identity == identity.inode else { return false }
        return identity.bytes.map { $0 == size } ?? true && identity.modified.map { $0 == mark.time } ?? true
    }
}
