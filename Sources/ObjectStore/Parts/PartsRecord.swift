import HaulContract

/// What another worker must know to continue an incomplete object. It is written to Redis only after the store has
/// acknowledged everything that it names.
///
/// The text is opaque outside of this module: words between blanks, each of which begins with a letter for its kind.
struct PartsRecord: Sendable, Equatable {
    /// Bytes of one incomplete part, in an object of their own.
    struct Tail: Sendable, Equatable {
        let part: Int
        /// The end of its key, behind `t.`.
        let name: String
        let bytes: ByteIntervals
        /// In lower-case hexadecimal digits.
        let md5: String
    }

    /// Bytes of the whole object; nil if unknown.
    var total: Int64?
    /// The upload's id; nil before the upload is begun: then only tails exist.
    var upload: String?
    /// The upload makes a hidden object, which is copied to its final name after its digest was verified.
    var isHidden = false
    /// The parts that the store has acknowledged.
    var parts: [Int: PartMark] = [:]
    var tails: [Tail] = []

    init(total: Int64?) { self.total = total }

    var formula: PartFormula { PartFormula(total: total) }

    /// The bytes that the store has, according to this record.
    var offsets: ByteIntervals {
        let formula = formula
        var result = ByteIntervals(parts.keys.sorted().map { formula.range(of: $0) })
        for tail in tails { for interval in tail.bytes.intervals { result.insert(interval) } }
        return result
    }

    /// Replaces the parts by those that the store lists. A listed part that the record does not name is right, too,
    /// because every worker uploads the same bytes as this part, and the store has compared their MD5. A part that is
    /// not listed is lost, and so is one with another ETag: a repeated request can change that, and so can another
    /// program.
    ///
    /// - Returns: The ETags by part number; nil if another program has added a part.
    mutating func adopt(_ listed: [ListedPart]) -> [Int: String]? {
        let formula = formula
        var etags: [Int: String] = [:]
        // Some servers list a part twice if it was uploaded twice.
        for (number, found) in Dictionary(grouping: listed, by: \.number) {
            guard number >= 1, number <= PartFormula.maxParts else { return nil }
            let length = Int64(formula.range(of: number).count)
            let whole = found.filter { $0.size == length && length > 0 }
            guard !whole.isEmpty || parts[number] != nil else { return nil }
            let right = whole.first { part in parts[number].map { $0 == PartMark(etag: part.etag) } ?? true }
            if let right { etags[number] = right.etag }
        }
        parts = etags.mapValues { PartMark(etag: $0) }
        tails.removeAll { parts[$0.part] != nil }
        return etags
    }

    // MARK: Text

    private static let version = "parts1"

    var text: String {
        var words = [Self.version]
        if let total { words.append("n\(total)") }
        if let upload { words.append("u" + URIText.encode(upload)) }
        if isHidden { words.append("h") }
        // Each run of consecutive parts is one word: the number of the first part, and the marks of all.
        var (first, run) = (0, [PartMark]())
        for (number, mark) in parts.sorted(by: { $0.key < $1.key }) {
            if number != first + run.count, !run.isEmpty {
                words.append("p\(first):" + run.map(\.description).joined())
                run = []
            }
            if run.isEmpty { first = number }
            run.append(mark)
        }
        if !run.isEmpty { words.append("p\(first):" + run.map(\.description).joined()) }
        for tail in tails {
            let bytes = tail.bytes.intervals.map { "\($0.lowerBound)-\($0.upperBound)" }.joined(separator: ",")
            words.append("t\(tail.part):\(tail.name):\(tail.md5):\(bytes)")
        }
        return words.joined(separator: " ")
    }

    /// Reads the text of a record; nil if it is not valid, or if it names bytes outside of a part.
    init?(_ text: String) {
        var words = text.split(separator: " ")
        guard words.first == Self.version[...] else { return nil }
        words.removeFirst()
        for word in words {
            let value = word.dropFirst()
            switch word.first {
            case "n":
                guard let number = Int64(value), number >= 0 else { return nil }
                total = number
            case "u":
                guard let decoded = Self.decoded(value) else { return nil }
                upload = decoded
            case "h": isHidden = true
            case "p": guard readParts(value) else { return nil }
            case "t": guard readTail(value) else { return nil }
            default: return nil
            }
        }
        guard upload != nil || parts.isEmpty else { return nil }
        let formula = formula
        let isPossible = tails.allSatisfy { tail in
            let range = formula.range(of: tail.part)
            return tail.bytes.intervals.allSatisfy {
                range.lowerBound <= $0.lowerBound && $0.upperBound <= range.upperBound
            }
        }
        guard isPossible, parts.keys.allSatisfy({ !formula.range(of: $0).isEmpty }) else { return nil }
    }

    private mutating func readParts(_ text: Substring) -> Bool {
        let pieces = text.split(separator: ":")
        guard pieces.count == 2, let first = Int(pieces[0]), (1...PartFormula.maxParts).contains(first) else {
            return false
        }
        let marks = Array(pieces[1].utf8)
        guard marks.count % PartMark.length == 0 else { return false }
        for (index, start) in stride(from: 0, to: marks.count, by: PartMark.length).enumerated() {
            let number = first + index
            guard number <= PartFormula.maxParts,
                let mark = PartMark(String(decoding: marks[start..<start + PartMark.length], as: UTF8.self))
            else { return false }
            parts[number] = mark
        }
        return true
    }

    private mutating func readTail(_ text: Substring) -> Bool {
        let pieces = text.split(separator: ":")
        guard pieces.count == 4, let part = Int(pieces[0]), (1...PartFormula.maxParts).contains(part),
            pieces[2].utf8.count == 32
        else { return false }
        var bytes = ByteIntervals()
        for piece in pieces[3].split(separator: ",") {
            let ends = piece.split(separator: "-").compactMap { Int64($0) }
            guard ends.count == 2, ends[0] >= 0, ends[0] < ends[1] else { return false }
            bytes.insert(ends[0]..<ends[1])
        }
        guard !bytes.isEmpty, !pieces[1].contains("/") else { return false }
        tails.append(Tail(part: part, name: String(pieces[1]), bytes: bytes, md5: String(pieces[2])))
        return true
    }

    /// Decodes what `URIText.encode` has made; nil for a broken escape or invalid UTF-8.
    static func decoded(_ text: Substring) -> String? {
        var (result, rest) = ([UInt8](), text.utf8[...])
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "%") else {
                result.append(byte)
                continue
            }
            guard rest.count >= 2, let value = UInt8(Substring(rest.prefix(2)), radix: 16) else { return nil }
            result.append(value)
            rest.removeFirst(2)
        }
        return String(validating: result, as: UTF8.self)
    }
}

/// A short mark that stands for a part's ETag: nine bytes of its MD5, in twelve base64url characters. ETags differ in
/// kind and length between servers. The mark is always short, and changes with the ETag.
struct PartMark: Sendable, Hashable, CustomStringConvertible {
    static let length = 12

    let description: String

    init(etag: String) {
        let digest = Digest.md5(etag.utf8).prefix(9)
        description = Base64.encode(digest).replacing("+", with: "-").replacing("/", with: "_")
    }

    /// Reads a mark from a store state; nil if `text` is not a mark.
    init?(_ text: some StringProtocol) {
        let isMark = { (byte: UInt8) in
            switch byte {
            case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"):
                true
            default: false
            }
        }
        guard text.utf8.count == Self.length, text.utf8.allSatisfy(isMark) else { return nil }
        description = String(text)
    }
}
