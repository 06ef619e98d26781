import HaulContract
import HaulTestSupport
import Testing

@testable import HaulObjectStore

/// The range of each part, and the record of parts.
@Suite struct PartTests {
    @Test(
        "the parts of a known size are contiguous, and few enough",
        arguments: [
            0, 1, 8 << 20, (8 << 20) + 1, 1 << 30, 75_497_472_000, 75_497_472_001, 1 << 40, 5 << 40,
        ] as [Int64]) func known(_ total: Int64) throws
    {
        let formula = PartFormula(total: total)
        let count = try #require(formula.count)
        #expect(count <= 9_000 && formula.isSingle == (count == 1))
        var end: Int64 = 0
        var unequal = 0
        for number in 1...count {
            let range = formula.range(of: number)
            #expect(range.lowerBound == end)
            #expect(range.isEmpty == (total == 0))
            // The minimum of S3 for all parts but the last.
            #expect(number == count || range.upperBound - range.lowerBound >= 5 << 20)
            // Cloudflare R2 requires that all parts but the last are equal.
            if number < count, range.count != formula.range(of: 1).count { unequal += 1 }
            if !range.isEmpty {
                #expect(formula.part(at: range.lowerBound) == number)
                #expect(formula.part(at: range.upperBound - 1) == number)
            }
            end = range.upperBound
        }
        #expect(end == total && unequal == 0)
        #expect(formula.range(of: count + 1).isEmpty)
    }

    @Test("the parts of an unknown size grow, and suffice for the largest possible object") func unknown() {
        let formula = PartFormula(total: nil)
        #expect(!formula.isSingle && formula.count == nil)
        var end: Int64 = 0
        for number in 1...PartFormula.maxParts {
            let range = formula.range(of: number)
            #expect(range.lowerBound == end)
            #expect(formula.part(at: range.lowerBound) == number && formula.part(at: range.upperBound - 1) == number)
            // A part is at most 5 GiB.
            #expect(range.upperBound - range.lowerBound <= 5 << 30)
            end = range.upperBound
        }
        // Cloudflare R2 requires equal parts. No part needs more memory than 4 GiB.
        #expect((1...8_000).allSatisfy { formula.range(of: $0).count == 8 << 20 })
        #expect(formula.range(of: 8_001).count == 16 << 20 && formula.range(of: 10_000).count == 4 << 30)
        #expect(end >= ObjectStore.maxObjectSize)
    }

    @Test("a parts record is read as it was written") func storeState() throws {
        var storeState = PartsRecord(total: 100 << 20)
        #expect(PartsRecord(storeState.text) == storeState)
        storeState.upload = "2~a b/c%é|"
        storeState.isHidden = true
        for number in [1, 2, 3, 7, 8, 12] { storeState.parts[number] = PartMark(etag: "etag \(number)") }
        storeState.tails = [
            .init(
                part: 4, name: "4.0a1b", bytes: ByteIntervals([25_165_824..<25_165_900, 25_200_000..<25_200_001]),
                md5: String(repeating: "a", count: 32)),
            .init(
                part: 13, name: "13.ff", bytes: ByteIntervals([100_663_296..<100_663_297]),
                md5: String(repeating: "b", count: 32)),
        ]
        let read = try #require(PartsRecord(storeState.text))
        #expect(read == storeState)
        #expect(
            read.offsets.intervals == [
                0..<25_165_900, 25_200_000..<25_200_001, 50_331_648..<67_108_864, 92_274_688..<100_663_297,
            ])
        var unknown = PartsRecord(total: nil)
        unknown.upload = "x"
        unknown.parts[1] = PartMark(etag: "1")
        #expect(PartsRecord(unknown.text) == unknown)
    }

    @Test(
        "a malformed parts record is not read",
        arguments: [
            "", "parts2 n5", "parts1 n-1", "parts1 nx", "parts1 q", "parts1 n5 p1:abcdefghijkl",
            "parts1 n5 ux p0:abcdefghijkl",
            "parts1 n5 ux p1:abc", "parts1 n5 ux p2:abcdefghijkl", "parts1 n5 ux p1:abcdefghij/l",
            "parts1 n5 t1:a:00000000000000000000000000000000:0-6", "parts1 n5 t1:a:0:0-5",
            "parts1 n5 t1:a:00000000000000000000000000000000:3-3", "parts1 n5 u%zz",
        ]) func malformed(_ text: String)
    { #expect(PartsRecord(text) == nil) }

    @Test("random parts records are read as they were written, and mutated ones never trap") func random() {
        var generator = SeededGenerator(state: 7)
        for _ in 0..<500 {
            var storeState = PartsRecord(total: Int64.random(in: 1...1 << 36, using: &generator))
            let count = storeState.formula.count!
            storeState.upload = "u"
            for _ in 0..<Int.random(in: 0...20, using: &generator) {
                let number = Int.random(in: 1...count, using: &generator)
                storeState.parts[number] = PartMark(etag: "\(number)")
            }
            #expect(PartsRecord(storeState.text) == storeState)
            var bytes = Array(storeState.text.utf8)
            for _ in 0..<3 {
                bytes[Int.random(in: 0..<bytes.count, using: &generator)] = UInt8.random(
                    in: 32...126, using: &generator)
            }
            _ = PartsRecord(String(decoding: bytes, as: UTF8.self))?.offsets
        }
    }

    @Test("a parts record adopts the complete parts that a store lists, and drops the others") func adoption() {
        var storeState = PartsRecord(total: 20 << 20)
        storeState.upload = "u"
        storeState.parts = [1: PartMark(etag: "a"), 2: PartMark(etag: "b")]
        storeState.tails = [
            PartsRecord.Tail(part: 3, name: "t", bytes: ByteIntervals([16 << 20..<17 << 20]), md5: "m")
        ]
        var (changed, lost, found) = (storeState, storeState, storeState)
        let part: (Int, String, Int64) -> ListedPart = { ListedPart(number: $0, etag: $1, size: $2 << 20) }
        #expect(changed.adopt([part(1, "a", 8), part(2, "x", 8), part(2, "b", 8)]) == [1: "a", 2: "b"])
        #expect(changed == storeState)
        #expect(lost.adopt([part(2, "b", 8)]) == [2: "b"])
        #expect(lost.offsets.intervals == [8 << 20..<17 << 20] && lost.tails == storeState.tails)
        // A part that has changed is lost, and only that one.
        for wrong in [part(1, "x", 8), part(1, "a", 7)] {
            var other = storeState
            #expect(other.adopt([part(2, "b", 8), wrong]) == [2: "b"])
        }
        for wrong in [part(3, "c", 3), part(4, "d", 8), part(0, "e", 8)] {
            var other = storeState
            #expect(other.adopt([part(2, "b", 8), wrong]) == nil)
        }
        #expect(found.adopt([part(1, "a", 8), part(2, "b", 8), part(3, "c", 4)]) == [1: "a", 2: "b", 3: "c"])
        #expect(found.offsets.intervals == [0..<20 << 20] && found.tails.isEmpty)
    }

    @Test("each ETag has a mark of its own, which is read as it was written") func marks() {
        let marks = Set((0..<1000).map { PartMark(etag: "etag\($0)") })
        #expect(marks.count == 1000 && marks.allSatisfy { PartMark($0.description) == $0 })
    }
}
