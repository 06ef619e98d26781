import Glibc
import HaulContract
import HaulHTTP

/// The bytes of one part in memory. The lock of the partial file protects everything that changes. Bytes that are
/// present never change, so they can be read without the lock.
final class PartBuffer: @unchecked Sendable {
    let number: Int
    let range: Range<Int64>
    let reservation: PartMemory.Reservation
    private let memory: UnsafeMutableRawPointer
    private let pages: PagePool
    /// The bytes that have been copied here.
    var present = ByteIntervals()
    /// The present bytes that a tail has as well.
    var saved = ByteIntervals()
    private let begun = ContinuousClock.now
    /// When the buffer was made or last saved.
    var lastSaved = ContinuousClock.now
    /// The buffer accepts no more bytes, because it is being uploaded or saved.
    var isClosed = false

    init(_ number: Int, _ range: Range<Int64>, _ reservation: PartMemory.Reservation, in pages: PagePool) {
        (self.number, self.range, self.reservation, self.pages) = (number, range, reservation, pages)
        memory = pages.take(range.count)
    }

    deinit { pages.recycle(memory, range.count, isFast: ContinuousClock.now - begun < .seconds(1)) }

    /// The present bytes that no tail has.
    var fresh: ByteIntervals { ByteIntervals(present.intervals.flatMap { saved.missing(in: $0) }) }

    func copy(_ source: UnsafeRawPointer, to bytes: Range<Int64>) {
        memcpy(memory + Int(bytes.lowerBound - range.lowerBound), source, bytes.count)
        present.insert(bytes)
    }

    func bytes(_ part: Range<Int64>) -> UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(start: memory + Int(part.lowerBound - range.lowerBound), count: part.count)
    }

    /// The bytes as a request's body, without a copy. The body retains this object.
    func body(_ part: Range<Int64>) -> RequestMemory { RequestMemory(bytes(part), of: self) }

    /// Several pieces as one body: a copy, unless there is only one piece.
    func body(_ pieces: ByteIntervals) -> RequestMemory {
        if pieces.intervals.count == 1 { return body(pieces.intervals[0]) }
        var all: [UInt8] = []
        for piece in pieces.intervals { all += bytes(piece) }
        return RequestMemory(all)
    }
}

extension ByteIntervals {
    /// The ranges within `range` that are not in the set.
    func missing(in range: Range<Int64>) -> [Range<Int64>] {
        var result: [Range<Int64>] = []
        var position = range.lowerBound
        for interval in intervals where interval.upperBound > position && interval.lowerBound < range.upperBound {
            if position < interval.lowerBound { result.append(position..<interval.lowerBound) }
            position = interval.upperBound
        }
        if position < range.upperBound { result.append(position..<range.upperBound) }
        return result
    }
}
