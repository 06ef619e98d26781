package import HaulContract

/// How to make the activity of each kind of job.
package struct Activities: Sendable {
    /// Makes the activity of one run, without starting it.
    package typealias Maker = @Sendable (Assignment, RunIO) -> any Activity

    private let makers: [Job.Kind: Maker]

    package init(_ makers: [Job.Kind: Maker]) { self.makers = makers }

    /// The names of the kinds, sorted and separated by spaces.
    package var kinds: String { makers.keys.map(\.rawValue).sorted().joined(separator: " ") }

    /// Makes an activity, which has not started yet. nil for a kind that is not in the table.
    package func make(_ assignment: Assignment, _ io: RunIO) -> (any Activity)? {
        makers[assignment.job.kind]?(assignment, io)
    }
}
