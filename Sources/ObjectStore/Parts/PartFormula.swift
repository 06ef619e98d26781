/// Which bytes the parts of an upload have. The boundaries are the same for every worker, so all workers upload the
/// same bytes as part n.
struct PartFormula: Sendable, Equatable {
    /// Bytes of the whole object; nil if unknown.
    let total: Int64?

    /// Bytes of each part, if the length of the object is known.
    private let size: Int64

    static let minSize: Int64 = 8 << 20
    /// S3 allows no more parts in an upload.
    static let maxParts = 10_000
    /// An object of known length has at most this many parts, with some distance to `maxParts`.
    private static let aim: Int64 = 9_000
    private static let mebibyte: Int64 = 1 << 20
    /// If the length is unknown, the parts are equal at first, because Cloudflare R2 requires that. Then their size
    /// doubles after each stage of this many parts, up to 4 GiB. So there are enough parts for the largest object of
    /// S3, 5 TiB.
    private static let equal = 8_000
    private static let stage = 100
    private static let maxPartSize: Int64 = 4 << 30

    init(total: Int64?) {
        self.total = total
        let share = ((total ?? 0) + Self.aim - 1) / Self.aim
        let rounded = (share + Self.mebibyte - 1) / Self.mebibyte * Self.mebibyte
        size = max(Self.minSize, rounded)
    }

    /// The whole object is one part, and needs no multipart upload.
    var isSingle: Bool { total.map { $0 <= size } ?? false }

    /// The number of parts; nil if the length is unknown.
    var count: Int? { total.map { Int(max(1, ($0 + size - 1) / size)) } }

    /// The bytes of part `number`, counted from 1. Empty beyond the end of an object of known length.
    func range(of number: Int) -> Range<Int64> {
        guard let total else {
            let (start, size) = stage(of: number)
            return start..<start + size
        }
        let start = min(total, Int64(number - 1) * size)
        return start..<min(total, start + size)
    }

    /// The number of the part that has the byte at `offset`.
    func part(at offset: Int64) -> Int {
        guard total == nil else { return Int(offset / size) + 1 }
        let stage = Self.stages.last { $0.start <= offset } ?? Self.stages[0]
        return stage.first + Int((offset - stage.start) / stage.size)
    }

    /// The numbers of the parts that overlap `range`.
    func parts(in range: Range<Int64>) -> ClosedRange<Int> {
        part(at: range.lowerBound)...part(at: max(range.lowerBound, range.upperBound - 1))
    }

    /// Where a part begins and how long it is, if the length of the object is unknown.
    private func stage(of number: Int) -> (start: Int64, size: Int64) {
        let stage = Self.stages.last { $0.first <= number } ?? Self.stages[0]
        return (stage.start + Int64(number - stage.first) * stage.size, stage.size)
    }

    /// The first part of each stage, where it begins, and the size of its parts.
    private static let stages: [(first: Int, start: Int64, size: Int64)] = {
        var result = [(first: 1, start: Int64(0), size: minSize)]
        for first in stride(from: equal + 1, through: maxParts, by: stage) {
            let last = result[result.count - 1]
            let start = last.start + Int64(first - last.first) * last.size
            result.append((first, start, min(maxPartSize, last.size * 2)))
        }
        return result
    }()
}
