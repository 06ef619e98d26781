/// Which bytes part n of an upload has: the same for every worker, so that whoever uploads it uploads the same bytes.
struct PartFormula: Sendable, Equatable {
    /// The bytes of the whole; nil if nobody knows them.
    let total: Int64?

    /// The parts of a known whole: bytes.
    private let size: Int64

    static let smallest: Int64 = 8 << 20
    /// No upload has more.
    static let mostParts = 10_000
    /// A known whole has about as many at most: some are left for surprises.
    private static let aim: Int64 = 9_000
    private static let mebibyte: Int64 = 1 << 20
    /// Of an unknown whole so many parts have the same size; the next ones have twice that.
    private static let stage = 1_000

    init(total: Int64?) {
        self.total = total
        let share = ((total ?? 0) + Self.aim - 1) / Self.aim
        let rounded = (share + Self.mebibyte - 1) / Self.mebibyte * Self.mebibyte
        size = max(Self.smallest, rounded)
    }

    /// All of it is one part, which no upload of parts is made for.
    var isSingle: Bool { total.map { $0 <= size } ?? false }

    /// The number of parts; nil if the whole is not known.
    var count: Int? { total.map { Int(max(1, ($0 + size - 1) / size)) } }

    /// The bytes of part `number`, which is 1 or more; beyond the end of a known whole it is empty.
    func range(of number: Int) -> Range<Int64> {
        guard let total else {
            let (start, size) = stage(of: number)
            return start..<start + size
        }
        let start = min(total, Int64(number - 1) * size)
        return start..<min(total, start + size)
    }

    /// The part that has the byte at `offset`.
    func part(at offset: Int64) -> Int {
        guard total == nil else { return Int(offset / size) + 1 }
        var (start, size, first) = (Int64(0), Self.smallest, 1)
        while offset >= start + size * Int64(Self.stage) {
            start += size * Int64(Self.stage)
            (size, first) = (size * 2, first + Self.stage)
        }
        return first + Int((offset - start) / size)
    }

    /// The parts whose bytes `range` touches.
    func parts(in range: Range<Int64>) -> ClosedRange<Int> {
        part(at: range.lowerBound)...part(at: max(range.lowerBound, range.upperBound - 1))
    }

    /// Where a part of an unknown whole begins, and how long it is.
    private func stage(of number: Int) -> (start: Int64, size: Int64) {
        var (start, size, first) = (Int64(0), Self.smallest, 1)
        while number >= first + Self.stage {
            start += size * Int64(Self.stage)
            (size, first) = (size * 2, first + Self.stage)
        }
        return (start + Int64(number - first) * size, size)
    }
}
