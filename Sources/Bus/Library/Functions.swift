import CHaulLua
package import HaulRedis

/// The library of Redis functions: LuaHead and the files of Lua/, in the order of CLua.c.
struct Functions: Sendable {
    let all: Library
    let claim: Function
    let settle: Function
    let settleAndClaim: Function
    let tick: Function
    let report: Function
    let register: Function
    let leave: Function
    let inspect: Function
    let recover: Function
    let announce: Function
    let pushSteps: Function
    let leaseRates: Function
    let pace: Function
    let schedule: Function

    static let product = Functions()

    /// - Parameters:
    ///   - clock: The body of a Lua function that replaces Call.clock(). A simulation has a time of its own.
    ///   - server: The same for Call.server(). A simulation loses data without a failover.
    ///   - patch: Lua behind everything else.
    init(clock: String? = nil, server: String? = nil, patch: String? = nil) {
        all = Library(name: "haul", body: Self.body(clock: clock, server: server, patch: patch))
        claim = all.function("claim")
        settle = all.function("settle")
        settleAndClaim = all.function("settle_and_claim")
        tick = all.function("tick")
        report = all.function("report")
        register = all.function("register")
        leave = all.function("leave")
        inspect = all.function("inspect")
        recover = all.function("recover")
        announce = all.function("announce")
        pushSteps = all.function("push_steps")
        leaseRates = all.function("lease_rates")
        pace = all.function("pace")
        schedule = all.function("schedule")
    }

    /// The Lua source of the library, without its header.
    static func body(clock: String? = nil, server: String? = nil, patch: String? = nil) -> String {
        let parts = [
            LuaHead.text, String(cString: chaul_lua()), clock.map { "Call.clock = function() \($0) end" },
            server.map { "Call.server = function() \($0) end" }, patch,
        ]
        return withoutComments(parts.compactMap(\.self).joined(separator: "\n"))
    }

    /// Lua without comments and indentation, which would be a third of what Redis keeps. Lines keep their numbers, so
    /// that errors name the lines of `body`.
    private static func withoutComments(_ lua: String) -> String {
        let newline = UInt8(ascii: "\n")
        var kept: [UInt8] = []
        kept.reserveCapacity(lua.utf8.count)
        for line in lua.utf8.split(separator: newline, omittingEmptySubsequences: false) {
            if line.startIndex > lua.startIndex { kept.append(newline) }
            let text = line.drop { $0 == UInt8(ascii: " ") }
            if !text.starts(with: "--".utf8) { kept += text }
        }
        return String(decoding: kept, as: UTF8.self)
    }
}

extension Queue {
    /// The name of the library that this version calls. It contains a digest of the source.
    package var functionLibrary: String { functions.all.name }

    /// Loads this version's library, so that users without the right to load it can call its functions.
    ///
    /// - Returns: On how many servers it was loaded: one, or all primaries of a cluster.
    package func loadFunctions() async throws(RedisError) -> Int { try await redis.load(functions.all) }
}
