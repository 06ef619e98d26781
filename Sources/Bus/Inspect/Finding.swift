/// A rule of the bus that a queue breaks.
package struct Finding: Sendable, Hashable {
    /// The id of a job, or a key.
    package let subject: String
    package let problem: String
    /// What the operator can do, or what --repair does.
    package let advice: String
    package var isRepaired = false

    package init(_ subject: String, _ problem: String, _ advice: String, isRepaired: Bool = false) {
        (self.subject, self.problem, self.advice, self.isRepaired) = (subject, problem, advice, isRepaired)
    }

    /// A job that breaks `rule`, by the names of rules in Lua/tick/inspection.lua.
    init(job id: String, breaks rule: String, isRepaired: Bool) {
        let (problem, advice) = Self.rules[rule] ?? (rule, "")
        self.init(id, problem, advice, isRepaired: isRepaired)
    }

    private static let rules: [String: (problem: String, advice: String)] = [
        "type": ("one of its keys is not a hash", "rename it to keep it, or --repair deletes it"),
        "number": ("a field of its hash must be a number and is not", "--repair deletes the field"),
        "trouble": ("it cannot be checked", "inspect its keys with TYPE and HGETALL"),
        "orphan": ("offsets or a spec without a job", "--repair deletes them"),
        "index without job": ("an index names a job that does not exist", "--repair removes the entry"),
        "deadline": ("its deadline and the index of deadlines disagree", "--repair makes them agree"),
        "no state": ("its hash has no state", "find out what wrote it, then delete the hash unless you need it"),
        "unknown state": (
            "its state is not a state of the contract", "find out what wrote it, then push the job again"
        ),
        "second index": ("it is also in the index of another state", "--repair removes it there"),
        "no index": (
            "it is missing in the index of its state",
            "--repair adds it there; if it was scheduled, its time is lost and it is due at once"
        ),
        "no lease": ("it runs without a lease", "--repair gives it one that has ended, so that it runs again"),
        "no token": ("it runs without a token or worker", "its lease ends by itself, and then it runs again"),
        "unknown to its worker": (
            "it runs, but its worker does not know it", "--repair ends its lease, so that it runs again"
        ),
        "no element": ("it is queued, but has no element in the queue", "--repair puts one at the front"),
        "ttl": (
            "a key of a job that has ended, or was not pushed yet, would never expire", "--repair sets a time to live"
        ),
        "unexpected ttl": ("a key of a job that is not final would expire", "--repair removes the time to live"),
        "response": ("the counted bytes of its response are not those of its hash", "--repair counts them again"),
        "url": ("it cannot be found by its URL", "--repair adds it to the index of URLs"),
        "no spec": ("the pushed element is gone", "push the job again with its url"),
    ]
}
