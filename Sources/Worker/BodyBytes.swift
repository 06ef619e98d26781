import HaulActivities

/// Bytes of bodies that runs have received and sent, repeated ones included.
struct BodyBytes: Sendable {
    private(set) var received: Int64 = 0
    private(set) var sent: Int64 = 0

    mutating func add(_ activity: any Activity) {
        if activity.isSending { sent += activity.transferred } else { received += activity.transferred }
    }
}
