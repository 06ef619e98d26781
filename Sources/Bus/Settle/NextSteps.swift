package import HaulContract
package import HaulRedis

/// The jobs that follow an end of a job, ready to be pushed: docs/guides/next-steps.md.
package struct NextSteps: Sendable {
    package private(set) var ids: [String]
    package private(set) var elements: [String]

    package static let none = NextSteps(ids: [], elements: [])

    init(ids: [String], elements: [String]) { (self.ids, self.elements) = (ids, elements) }

    /// The steps that follow the end of a run. There are none if the run did not complete or fail its job.
    package init(after settlement: Settlement, of job: Job, _ run: Run) {
        var values = ["id": run.id]
        switch settlement {
        case .completed(let file, _, _):
            values["file"] = file.file
            values["bytes"] = String(file.bytes)
            values["checksum"] = file.checksum ?? ""
        case .responded(let response, _, _): values["bytes"] = String(response.bytes)
        case .failed(let failure, _, _): values["error"] = failure.code.rawValue
        default:
            self = .none
            return
        }
        self.init(settlement.isCompleted ? .then : .else, of: job, values, parent: run.id, end: run.token)
    }

    /// - Parameter end: What distinguishes this end of the job from all others. The ids of steps without an id are made
    ///   of it, so a retried job has new steps, and a settle that is sent again has not.
    fileprivate init(_ list: Job.StepList, of job: Job, _ values: [String: String], parent: String, end: String) {
        self = .none
        for (index, step) in list.steps(of: job).enumerated() {
            let digest = SHA1.hex("\(parent) \(end)").prefix(12)
            let made = step.element(values, id: "\(parent.prefix(96)).\(list.rawValue)-\(index + 1).\(digest)")
            ids.append(made.id)
            elements.append(made.text)
        }
    }

    var bytes: Int { elements.reduce(0) { $0 + $1.utf8.count } }

    /// A field of the hash of the job that has ended; none if nothing follows.
    var fields: [(String, String)] { ids.isEmpty ? [] : [("steps", ids.joined(separator: " "))] }
}

/// The steps of a job that Redis itself has failed. A worker has to prepare and push them.
package struct OwedSteps: Sendable {
    /// The field of `owed_steps`: the job's id, and a token of its end.
    let entry: String
    private let error: String
    /// The element of the job.
    private let spec: [UInt8]

    /// A field and a value of `owed_steps`: Lua/settle/steps.lua. nil if the worker cannot read them.
    init?(entry: String, _ value: [UInt8]) {
        guard let space = value.firstIndex(of: UInt8(ascii: " ")) else { return nil }
        (self.entry, error) = (entry, String(decoding: value[..<space], as: UTF8.self))
        spec = Array(value[(space + 1)...])
    }

    package var id: String { String(entry.prefix { $0 != " " }) }

    /// None if the element cannot be read: its job has failed for that reason, or another client has written the entry.
    package var steps: NextSteps {
        guard let job = try? Job(element: spec), (try? job.checkSteps()) != nil else { return .none }
        return NextSteps(.else, of: job, ["id": id, "error": error], parent: id, end: entry)
    }
}

extension Queue {
    /// Pushes the steps of jobs that Redis has failed. Only the first worker that does it has an effect.
    package func push(_ owed: [OwedSteps], as worker: WorkerIdentity) async throws(RedisError) {
        for owed in owed {
            let steps = owed.steps
            try await redis.run(
                functions.pushSteps, keys: keys.functionKeys(for: worker.name),
                arguments: [Token.make(), owed.entry, owed.id, steps.ids.joined(separator: " ")] + steps.elements)
        }
    }
}
