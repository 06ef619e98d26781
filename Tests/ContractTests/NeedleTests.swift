import HaulContract
import Testing

@Suite struct NeedleTests {
    @Test("a needle is found exactly when a simple search finds it, at any length and position")
    func likeASlowSearch() {
        var random = SystemRandomNumberGenerator()
        let letters: [Character] = ["a", "A", "b", "@", "`", "é", "1"]
        for round in 0..<4000 {
            let text = String((0..<Int.random(in: 0...70, using: &random)).map { _ in letters.randomElement()! })
            // Half of the needles are parts of the text.
            var sought = String((0..<Int.random(in: 0...4, using: &random)).map { _ in letters.randomElement()! })
            if round.isMultiple(of: 2), !text.isEmpty {
                sought = String(text.dropFirst(Int.random(in: 0..<text.count)).prefix(Int.random(in: 1...30)))
            }
            let bytes = Array(text.utf8)
            #expect(Needle(sought).isIn(bytes) == Self.has(bytes, Array(sought.utf8)), "\(sought) in \(text)")
            let lower = { (text: String) in text.utf8.map { 65...90 ~= $0 ? $0 | 32 : $0 } }
            #expect(
                Needle(sought, ignoresCase: true).isIn(bytes) == Self.has(lower(text), lower(sought)),
                "\(sought) in \(text)")
        }
    }

    private static func has(_ text: [UInt8], _ sought: [UInt8]) -> Bool {
        (0...text.count).contains { text.dropFirst($0).starts(with: sought) }
    }
}
