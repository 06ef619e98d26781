/// The part of a file that a `Range` header requests. Headers with several ranges, other units or errors are ignored,
/// as RFC 9110 allows.
enum RequestedRange: Equatable {
    case whole
    case part(Range<Int64>)
    /// The range is beyond the end of the file.
    case unsatisfiable

    init(_ field: String?, of size: Int64) {
        self = .whole
        guard let field, field.lowercased().hasPrefix("bytes="), !field.contains(",") else { return }
        let ends = field.dropFirst(6).split(separator: "-", omittingEmptySubsequences: false).map {
            $0.filter { $0 != " " }
        }
        guard ends.count == 2, ends.allSatisfy({ $0.count < 19 && $0.utf8.allSatisfy { 48...57 ~= $0 } }) else {
            return
        }
        let (first, last) = (Int64(ends[0]), Int64(ends[1]))
        switch (first, last) {
        case (nil, nil): return
        case (nil, let count?): self = count > 0 && size > 0 ? .part(max(0, size - count)..<size) : .unsatisfiable
        case (let first?, let last):
            if let last, last < first { return }
            self = first < size ? .part(first..<min(size, (last ?? size) + 1)) : .unsatisfiable
        }
    }

    var isWhole: Bool { self == .whole }

    func bytes(of size: Int64) -> Range<Int64> {
        if case .part(let range) = self { return range }
        return 0..<size
    }
}
