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

    /// A job that breaks `rule`, by the names of rules in Lua/inspect.lua.
    init(job id: String, breaks rule: String, isRepaired: Bool) {
        let (problem, advice) = Self.rules[rule] ?? (rule, "")
        self.init(id, problem, advice, isRepaired: isRepaired)
    }

    private static let rules: [String: (problem: String, advice: String)] = [
        "type": ("one of its keys is no hash", "rename it if it is of use; --repair deletes it"),
        "number": ("a number in its hash is none", "--repair takes the field out"),
        "trouble": ("it cannot be checked", "look at its keys with TYPE and HGETALL"),
        "orphan": ("offsets or a spec without a job", "--repair deletes them"),
        "index without job": ("an index names a job that is not there", "--repair takes the entry out"),
        "deadline": ("its deadline and the index of deadlines disagree", "--repair makes them agree"),
        "no state": ("its hash has no state", "see what wrote it; delete the hash if it is of no use"),
        "unknown state": ("its state is none of the contract's", "see what wrote it, then push the job again"),
        "second place": ("it is in an index of another state as well", "--repair takes it out there"),
        "no place": ("it is missing in the index of its state", "--repair puts it there"),
        "no lease": ("it runs without a lease", "--repair gives it one that is over, so that it runs again"),
        "no token": ("it runs without a token or worker", "its lease ends by itself, and it runs again"),
        "unknown to its worker": (
            "it runs, but its worker does not know it", "--repair ends its lease, so that it runs again"
        ),
        "no element": ("it is queued, but has no element in line", "--repair puts one at the front"),
        "ttl": ("a key of a final job, or of a job to come, would stay for ever", "--repair sets a time to live"),
        "unexpected ttl": ("a key of a job that is not final would expire", "--repair takes the time to live away"),
        "response": ("what is counted of its response is not what its hash holds", "--repair counts it anew"),
        "no spec": ("what was pushed is gone", "push the job again with its url"),
    ]
}
