import HaulContract
import HaulStorage

/// One version of the remote entity, on its way into one partial file.
struct Generation: Sendable {
    let partial: any Partial
    /// Of the generation before it in the same run, which is there until this one is opened.
    var predecessor: (any Partial)?
    /// Its total is set at the end where the server does not tell it.
    var entity: Entity
    /// The URL, masked, that its bytes come from.
    let source: String
    /// `ResumePoint.landing`.
    let landing: String
    /// Bytes of other URLs than `source` are among them.
    var isMixed = false
    /// Bytes that an earlier run had brought.
    var inherited: Int64 = 0

    /// What there is in the store now, of this generation or of the one before it.
    var standing: (any Partial)? { partial.place == nil ? predecessor : partial }

    var name: String { partial.generation }

    /// Where another run may go on, once `checkpoint` is all that is durable; without one nothing is. nil before the partial
    /// file is opened.
    func resumePoint(_ checkpoint: Checkpoint? = nil, in store: any Store) -> ResumePoint? {
        partial.place.map { place in
            ResumePoint(
                generation: name, store: store.id, file: place.file, entity: entity, source: source,
                landing: landing, isMixed: isMixed, offsets: checkpoint?.offsets ?? ByteIntervals(),
                blockChecks: checkpoint?.blockChecks ?? [:], journal: checkpoint?.journal ?? "")
        }
    }
}
