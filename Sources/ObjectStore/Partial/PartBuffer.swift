import Glibc
import HaulContract
import HaulHTTP

/// One part's bytes in memory. All that may change is under the lock of the partial file that it belongs to; bytes that are there
/// never change.
final class PartBuffer: @unchecked Sendable {
    let number: Int
    let range: Range<Int64>
    let reservation: PartMemory.Reservation
    private let memory: UnsafeMutableRawPointer
    /// Bytes that are here.
    var present = ByteIntervals()
    /// Of these, what a tail has as well.
    var saved = ByteIntervals()
    /// When it was begun, or last saved.
    var since = ContinuousClock.now
    /// It takes no more bytes: they are on their way out.
    var isClosed = false

    init(_ number: Int, _ range: Range<Int64>, _ reservation: PartMemory.Reservation) {
        (self.number, self.range, self.reservation) = (number, range, reservation)
        // Straight from the kernel, and straight back: what malloc keeps of parts that are gone would be beyond the bound.
        let pages = mmap(nil, max(1, range.count), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
        guard let pages, pages != MAP_FAILED else { fatalError("no memory for a part of \(range.count) bytes") }
        memory = pages
    }

    deinit { munmap(memory, max(1, range.count)) }

    /// Bytes that no tail has.
    var fresh: ByteIntervals { ByteIntervals(present.intervals.flatMap { saved.missing(in: $0) }) }

    func copy(_ source: UnsafeRawPointer, to bytes: Range<Int64>) {
        memcpy(memory + Int(bytes.lowerBound - range.lowerBound), source, bytes.count)
        present.insert(bytes)
    }

    func bytes(_ part: Range<Int64>) -> UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(start: memory + Int(part.lowerBound - range.lowerBound), count: part.count)
    }

    /// As a body, which keeps this object.
    func body(_ part: Range<Int64>) -> RequestMemory { RequestMemory(bytes(part), of: self) }

    /// Several pieces as one body.
    func body(_ pieces: ByteIntervals) -> RequestMemory {
        if pieces.intervals.count == 1 { return body(pieces.intervals[0]) }
        var all: [UInt8] = []
        for piece in pieces.intervals { all += bytes(piece) }
        return RequestMemory(all)
    }
}

extension ByteIntervals {
    /// What of `range` is not in the set.
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
