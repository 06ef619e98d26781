import HaulContract

extension Failure {
    /// The failure with the options of a command instead of the fields of a job, which a command does not have.
    ///
    /// - Parameter kind: What the command does: `get`, `put` or `call`.
    func inCommand(_ kind: Job.Kind) -> Failure {
        var failure = self
        for (phrase, replacement) in Self.commonReplacements + Self.replacements(for: kind) {
            failure.message = failure.message.replacing(phrase, with: replacement)
        }
        return failure
    }

    private static let commonReplacements = [
        ("check its owner, and the user of this worker", "check its owner and its permissions"),
        ("this worker is out of file descriptors", "this process is out of file descriptors"),
        ("raise its limits or lower --slots", "raise its limit (ulimit -n), or run fewer transfers at once"),
        ("another worker has been giving", "another process has been giving"),
    ]

    private static func replacements(for kind: Job.Kind) -> [(String, String)] {
        switch kind {
        case .download:
            [
                (": free some space, or give the job max_bytes", ": free some space"),
                ("restart with another root", "choose another directory with -d"),
                ("give the job a path of its own", "give it a name of its own with -o"),
                (", the job says ", ", and the given one is "),
            ]
        case .upload:
            [
                ("; see idempotent", "; find out whether the server has it before you give the command again"),
                (": see max_response", ", and haul put keeps no more of it"),
                ("push the job again when", "give the command again when"),
                ("push the job again to", "give the command again to"),
            ]
        case .request:
            [
                ("; see idempotent", "; --idempotent lets it be sent again, for servers that recognize a repetition"),
                (": see max_response", ", and of an unexpected response no more is kept"),
            ]
        }
    }
}
