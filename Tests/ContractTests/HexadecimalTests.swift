import HaulContract
import Testing

@Suite struct HexadecimalTests {
    @Test("bytes are written as two lower-case digits each, and can be read back") func text() {
        let bytes = Array(UInt8.min...UInt8.max)
        #expect(Hexadecimal.text([0, 10, 255]) == "000aff")
        #expect(Hexadecimal.bytes(Hexadecimal.text(bytes)) == bytes)
        #expect(Hexadecimal.bytes("00aAfF") == [0, 170, 255])
    }

    @Test("text of odd length or with other characters is refused", arguments: ["0", "0g", "+1", "0x", " 1", "é"])
    func refused(_ text: String) { #expect(Hexadecimal.bytes(text) == nil) }
}
