import Foundation
import HaulTestSupport
import Testing

@testable import HaulBus

@Suite struct FunctionsTests {
    /// If CLua did not list a file, only calls of its functions would fail.
    @Test("each Lua file of Bus is part of the library") func files() throws {
        let sources = SchemaValidator.repository.appending(path: "Sources")
        let list = try String(contentsOf: sources.appending(path: "CLua/CLua.c"), encoding: .utf8)
        let folder = sources.appending(path: "Bus/Lua").path
        let files = FileManager.default.enumerator(atPath: folder)?.compactMap { $0 as? String } ?? []
        let lua = files.filter { $0.hasSuffix(".lua") }
        #expect(lua.count > 30)
        for file in lua { #expect(list.contains("#embed \"../Bus/Lua/\(file)\""), "\(file) is not in CLua.c") }
    }

    @Test("Redis gets the library without comments") func comments() {
        let body = Functions.body()
        #expect(!body.contains(/(^|\n)\s*--/))
        // Redis keeps it once for each version, and parses it at each load.
        #expect(body.utf8.count < 211_000)
    }

    @Test("a simulation has a clock and a server of its own") func simulation() throws {
        let body = Functions.body(clock: "return 7", server: "return 'x'")
        let position = { (text: String) in try #require(body.range(of: text)).lowerBound }
        let product = try position("function Call.clock()")
        for text in ["Call.clock = function() return 7 end\n", "Call.server = function() return 'x' end"] {
            #expect(try product < position(text), "\(text)")
        }
    }
}
