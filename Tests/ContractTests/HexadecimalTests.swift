import HaulContract
import Testing

@Suite struct HexadecimalTests {
    @Test("bytes become two lower-case digits each, and come back") func text() {
        let bytes = Array(UInt8.min...UInt8.max)
        #expect(Hexadecimal.text([0, 10, 255]) == "000aff")
        #expect(Hexadecimal.bytes(Hexadecimal.text(bytes)) == bytes)
        #expect(Hexadecimal.bytes("00aAfF") == [0, 170, 255])
    }

    @Test("an odd length and other characters are refused", arguments: ["0", "0g", "+1", "0x", " 1", "é"])
    func refused(_ text: String) { #expect(Hexadecimal.bytes(text) == nil) }
}
