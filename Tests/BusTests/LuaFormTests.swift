import Foundation
import HaulRedis
import HaulTestSupport
import Testing

@testable import HaulBus

/// The form of the Lua library: Sources/Bus/Lua/README.md.
@Suite struct LuaFormTests {
    /// A file of Lua, and what the header says of it.
    private struct File {
        let name: String
        let text: String
        let uses: Set<String>
        let callsAhead: Set<String>
        let writes: Set<String>
        /// Its lines in the chunk.
        var lines = 0..<0
    }

    /// The files in the order of the library.
    private static let files: [File] = {
        let sources = SchemaValidator.repository.appending(path: "Sources")
        let list = read(sources.appending(path: "CLua/CLua.c"))
        // The chunk of these tests has one line before the body, and the body has a line between its parts.
        var line = LuaHead.text.count { $0 == "\n" } + 3
        return list.matches(of: /#embed "..\/Bus\/Lua\/([a-z_\/]+)\.lua"/).map { match in
            let text = read(sources.appending(path: "Bus/Lua/\(match.1).lua"))
            let header = text.prefix(upTo: text.range(of: "\ndo\n")?.lowerBound ?? text.startIndex)
            var file = File(
                name: String(match.1), text: text, uses: names("Uses", in: header),
                callsAhead: names("Calls ahead", in: header), writes: names("Writes", in: header))
            // One line is between two files.
            let count = text.count { $0 == "\n" } + 1
            file.lines = line..<line + count
            line += count
            return file
        }
    }()

    private static func read(_ file: URL) -> String {
        FileManager.default.contents(atPath: file.path).map { String(decoding: $0, as: UTF8.self) } ?? ""
    }

    private static func names(_ word: String, in header: Substring) -> Set<String> {
        guard let begin = header.range(of: "-- \(word): ") else { return [] }
        let rest = header[begin.upperBound...]
        let list = rest.prefix(upTo: rest.range(of: ".\n")?.lowerBound ?? rest.lastIndex(of: ".")!)
        return Set(list.split { $0 == "," || $0 == " " || $0 == "\n" || $0 == "-" }.map(String.init))
    }

    private static func file(at line: Int) -> File? { files.first { $0.lines.contains(line) } }

    /// Nothing changes it once it is read.
    nonisolated(unsafe) private static let chunk = Result { try LuaChunk("local LIBRARY\n" + Functions.body()) }

    /// What Redis gives a library when it calls its functions.
    private static let given: Set<String> = [
        "cjson", "cmsgpack", "error", "ipairs", "math", "pairs", "pcall", "redis", "select", "setmetatable", "string",
        "table", "tonumber", "tostring", "type", "unpack",
    ]

    @Test("each name in the Lua library is declared, and each member of a table is defined") func declared() throws {
        let chunk = try Self.chunk.get()
        let unknown = chunk.uses.filter { $0.variable == nil && !Self.given.contains($0.name) }
        #expect(unknown.isEmpty, "\(unknown.map { "\($0.name), line \($0.line)" })")
        let ofTables = chunk.uses.filter { LuaHead.tables.contains($0.name) && $0.member != nil }
        let defined = Set(ofTables.filter(\.isWritten).map { "\($0.name).\($0.member!)" })
        let used = Set(ofTables.filter { !$0.isWritten }.map { "\($0.name).\($0.member!)" })
        #expect(used.subtracting(defined).isEmpty, "nothing defines \(used.subtracting(defined).sorted())")
        #expect(defined.subtracting(used).isEmpty, "nothing uses \(defined.subtracting(used).sorted())")
    }

    @Test("only the head changes variables of the chunk") func assigned() throws {
        let chunk = try Self.chunk.get()
        let head = Self.files[0].lines.lowerBound
        let changed = chunk.uses.filter { use in
            guard use.isWritten, use.member == nil, use.line >= head, let variable = use.variable else { return false }
            return chunk.isChunkVariable(variable) && variable.line < head
        }
        #expect(changed.isEmpty, "\(changed.map { "\($0.name), line \($0.line)" })")
    }

    @Test("no function of the Lua library comes near Lua's limits of variables") func limits() throws {
        let functions = try Self.chunk.get().functions
        #expect(functions.count > 300)
        #expect(functions.map(\.maxLive).max()! <= 120)
        #expect(functions.map { $0.outer.count }.max()! <= 40)
    }

    @Test("the header of each Lua file names the tables that it uses, and those of later files that it calls")
    func uses() throws {
        let chunk = try Self.chunk.get()
        var owners: [String: Int] = [:]
        let position = { (line: Int) in Self.files.firstIndex { $0.lines.contains(line) } }
        for use in chunk.uses where use.isWritten && use.member != nil && LuaHead.tables.contains(use.name) {
            guard let file = position(use.line) else { continue }
            #expect(owners[use.name] ?? file == file, "two files define functions of \(use.name)")
            owners[use.name] = file
        }
        #expect(Set(owners.keys) == Set(LuaHead.tables))
        for (index, file) in Self.files.enumerated() {
            let others = chunk.uses.filter { file.lines.contains($0.line) && owners[$0.name] ?? index != index }
            let ahead = Set(others.map(\.name).filter { owners[$0]! > index })
            #expect(file.uses == Set(others.map(\.name)).subtracting(ahead), "\(file.name): Uses")
            #expect(file.callsAhead == ahead, "\(file.name): Calls ahead")
            #expect(file.text.contains(/^(--.*\n)+do\n/) && file.text.hasSuffix("\nend\n"), "\(file.name) is one block")
        }
    }

    @Test("each key that a simulation writes is in the header of the Lua file that writes it")
    func writes() async throws {
        for file in Self.files {
            let unknown = file.writes.filter { Self.keyName($0) == nil }
            #expect(unknown.isEmpty, "\(file.name) names \(unknown.sorted()), which are not names of keys")
        }
        var simulation = try await Simulation(seed: 31, patch: Self.tracer)
        var traced: Set<String> = []
        for _ in 0..<15 {
            try await simulation.run(steps: 100)
            // The simulation may lose what is newer than a snapshot.
            let reply = try await simulation.redis.send(Command("HKEYS", "traced"))
            traced.formUnion(reply.array?.compactMap(\.string) ?? [])
        }
        #expect(simulation.ledger.violations.isEmpty, "\(simulation.ledger.violations.prefix(10))")
        var seen: Set<String> = []
        for entry in traced {
            let words = entry.split(separator: " ").map(String.init)
            // The library has two lines before its body.
            guard let file = Self.file(at: Int(words[0])! - 1) else { continue }
            let written = file.writes.contains { Self.keyName($0) == words[1] }
            #expect(written, "\(file.name), line \(Int(words[0])! - 1 - file.lines.lowerBound + 1), writes \(words[1])")
            seen.insert("\(file.name) \(words[1])")
        }
        // Otherwise the tracer has seen nothing.
        #expect(seen.count > 60, "\(seen.sorted())")
    }

    /// A name in a header as `KeyName` and `ChannelName` have it.
    private static func keyName(_ text: String) -> String? {
        let name = text.prefix { $0 != "<" }
        let known = KeyName.allCases.map(\.rawValue) + ChannelName.allCases.map(\.rawValue)
        return known.first { $0 == name }
    }

    /// Notes for each command that writes on which line of the library it is, and the names of its keys. A function that
    /// ends with `return call(…)` has no line any more, so its command is not seen.
    private static let tracer = """
        do
          local plain = bind
          bind = function()
            plain()
            local writes = { LMOVE = 2, DEL = 99 }
            for name in string.gmatch('HSET HDEL HINCRBY LPUSH RPUSH LPOP RPOP LTRIM LREM LSET ZADD ZREM SADD SREM SET PERSIST '
              .. 'PEXPIRE PUBLISH', '%S+') do writes[name] = 1 end
            local function traced(act)
              return function(name, ...)
                local _, place = pcall(error, '', 3)
                local line = writes[name] and string.match(tostring(type(place) == 'table' and place.err or place), ':(%d+):')
                for n = 1, line and math.min(writes[name], select('#', ...)) or 0 do
                  local key = string.match((select(n, ...)), '^haul:{[^}]*}:(%l[%l_]*:?)')
                  if key then redis.call('HSET', 'traced', line .. ' ' .. key, '') end
                end
                return act(name, ...)
              end
            end
            call, try = traced(call), traced(try)
          end
        end
        """
}
