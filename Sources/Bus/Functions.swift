import CHaulLua
import HaulRedis

/// The library of Redis functions: the tables of the contract and the files of Lua/, in the order of CLua.c.
struct Functions: Sendable {
    let all: Library
    let claim: Function
    let settle: Function
    let tick: Function
    let report: Function
    let register: Function
    let leave: Function
    let inspect: Function
    let recover: Function
    let announce: Function
    let leaseRates: Function
    let pace: Function

    static let product = Functions()

    /// - Parameters:
    ///   - clock: The body of a Lua function that replaces clock() of Lua/prelude.lua. A simulation has a time of its
    ///     own.
    ///   - server: The same for identity(). A simulation loses data without a failover.
    init(clock: String? = nil, server: String? = nil) {
        all = Library(name: "haul", body: Self.body(clock: clock, server: server))
        claim = all.function("claim")
        settle = all.function("settle")
        tick = all.function("tick")
        report = all.function("report")
        register = all.function("register")
        leave = all.function("leave")
        inspect = all.function("inspect")
        recover = all.function("recover")
        announce = all.function("announce")
        leaseRates = all.function("lease_rates")
        pace = all.function("pace")
    }

    /// The Lua source of the library, without its header.
    static func body(clock: String? = nil, server: String? = nil) -> String {
        let parts = [
            Gate.table, String(cString: chaul_lua_prelude()),
            clock.map { "clock = function() \($0) end" }, server.map { "identity = function() \($0) end" },
            String(cString: chaul_lua_functions()),
        ]
        return parts.compactMap(\.self).joined(separator: "\n")
    }
}
