import HaulActivities

/// Bytes of bodies that runs have received and sent, repeated ones included.
struct BodyBytes: Sendable {
    private(set) var received: Int64 = 0
    private(set) var sent: Int64 = 0

    mutating func add(_ progress: ActivityProgress) {
        if progress.isSending { sent += progress.transferred } else { received += progress.transferred }
    }
}
