import Foundation
import HaulTestSupport
import Testing

@testable import HaulBus

@Suite struct FunctionsTests {
    /// If CLua did not list a file, only calls of its functions would fail.
    @Test("each Lua file of Bus is part of the library") func files() throws {
        let folder = SchemaValidator.repository.appending(path: "Sources/Bus/Lua")
        let files = try FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil)
        let body = Functions.body()
        #expect(files.count > 30)
        for file in files {
            let text = try String(contentsOf: file, encoding: .utf8)
            #expect(body.contains(text), "\(file.lastPathComponent) is not in CLua.c as it is")
        }
    }

    @Test("a simulation has a clock and a server of its own") func simulation() throws {
        let body = Functions.body(clock: "return 7", server: "return 'x'")
        let position = { (text: String) in try #require(body.range(of: text)).lowerBound }
        let (theirs, user) = try (position("local function clock()"), position("define('claim'"))
        for text in ["clock = function() return 7 end\n", "identity = function() return 'x' end\n"] {
            #expect(try theirs < position(text) && position(text) < user, "\(text)")
        }
    }
}
