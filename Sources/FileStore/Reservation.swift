/// How much of a file's space is reserved: some of it ahead of the bytes that have arrived, and never all that is free.
///
/// A server may announce any length and send nothing, and whatever is reserved for that length is missing for all other
/// jobs. So a file gets 256 MiB first, and then as much as its arrived bytes have earned: 16 times their number, but
/// not more than half of what is free. A file that really comes has its whole space soon, so that a disk that is too
/// small for it is found early.
struct Reservation: Sendable {
    /// Bytes that are reserved for any file.
    static let initialBytes: Int64 = 256 << 20
    /// A further part is reserved when no more reserved bytes than this are left.
    static let refillThreshold: Int64 = 64 << 20
    /// Bytes that are reserved for each byte that has arrived.
    private static let reservedPerArrivedByte: Int64 = 16

    /// The size of the file in bytes; 0 if nothing is reserved.
    var size: Int64 = 0
    /// Bytes of the file that have arrived, in whatever order.
    var arrived: Int64 = 0
    /// The file offset up to which its space is reserved; `.max` while a further part is being reserved.
    var reservedEnd: Int64 = 0
    var minFree: Int64 = 0

    var isDue: Bool { reservedEnd < size && arrived >= reservedEnd - Self.refillThreshold }

    /// The offset up to which a file's space is to be reserved.
    static func targetEnd(of size: Int64, arrived: Int64, free: Int64?) -> Int64 {
        let earned = min(min(arrived, .max / 32) * reservedPerArrivedByte, (free ?? .max) / 2)
        return min(size, min(arrived, .max / 2) + max(initialBytes, earned))
    }
}
