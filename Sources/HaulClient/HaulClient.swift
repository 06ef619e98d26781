// What a job, its state and its events are is said once, in Contract. A program imports HaulClient alone.
@_exported public import HaulContract
