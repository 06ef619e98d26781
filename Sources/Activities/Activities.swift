package import HaulContract

/// How to make the activity of each kind of job.
package struct Activities: Sendable {
    /// Makes the activity of one run. The activity has not started yet.
    package typealias Maker = @Sendable (Assignment) -> any Activity

    private let makers: [Job.Kind: Maker]

    package init(_ makers: [Job.Kind: Maker]) { self.makers = makers }

    /// The names of the kinds, sorted and separated by spaces.
    package var kinds: String { makers.keys.map(\.rawValue).sorted().joined(separator: " ") }

    /// Makes the activity without starting it. nil for a kind that is not in the table.
    package func begin(_ assignment: Assignment) -> (any Activity)? { makers[assignment.job.kind]?(assignment) }
}
