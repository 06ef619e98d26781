package import HaulContract

/// The table from a job's kind to the activity that does it.
package struct Activities: Sendable {
    /// Makes the activity for one run, not begun.
    package typealias Maker = @Sendable (Assignment) -> any Activity

    private let makers: [Job.Kind: Maker]

    package init(_ makers: [Job.Kind: Maker]) { self.makers = makers }

    /// The kinds in the table, with blanks between them.
    package var kinds: String { makers.keys.map(\.rawValue).sorted().joined(separator: " ") }

    /// nil for a kind that is not in the table.
    package func begin(_ assignment: Assignment) -> (any Activity)? { makers[assignment.job.kind]?(assignment) }
}
