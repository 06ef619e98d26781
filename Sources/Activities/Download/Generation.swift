import HaulContract
import HaulStorage

/// The bytes of one version of the remote entity, in one partial file.
struct Generation: SourcedRecord {
    let partial: any Partial
    /// The partial file of the run's previous generation. It exists until this generation's file is opened.
    var predecessor: (any Partial)?
    /// Its total is unknown until all bytes have arrived, if the server does not announce it.
    var entity: Entity
    /// The masked URL that the bytes come from.
    let source: String
    /// "" if it is not known yet, for bytes that version 0.2 has recorded.
    var sourceResource: String
    /// The media type that a job asked for, and that a response for this entity confirmed.
    var contentType: String?
    /// `ResumePoint.finalURL`.
    let finalURL: String
    /// Some bytes come from other URLs than `source`.
    var isMixed = false
    /// Bytes that earlier runs have fetched.
    var inherited: Int64 = 0

    /// The partial file that exists in the store: this generation's, or its predecessor's.
    var partialInStore: (any Partial)? { partial.location == nil ? predecessor : partial }

    var name: String { partial.generation }

    /// Where another run can continue, if only the bytes of `checkpoint` (nil: none) are durable. nil before `open`.
    func resumePoint(_ checkpoint: Checkpoint? = nil, in store: any Store) -> ResumePoint? {
        partial.location.map { location in
            var point = ResumePoint(
                generation: name, store: store.id, file: location.file, entity: entity, source: source,
                finalURL: finalURL, isMixed: isMixed, offsets: checkpoint?.offsets ?? ByteIntervals(),
                blockChecks: checkpoint?.blockChecks ?? [:], storeState: checkpoint?.storeState ?? "")
            (point.sourceResource, point.contentType) = (sourceResource, contentType)
            return point
        }
    }
}
