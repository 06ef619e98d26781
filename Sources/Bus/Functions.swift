import CHaulLua
import HaulRedis

/// The bus' Lua, put together from the files in Lua/, which CLua lists, to one library of Redis functions.
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
    let tell: Function
    let share: Function
    let pace: Function

    static let product = Functions()

    /// `clock` and `server` are Lua that takes the place of the prelude's clock() and identity(): a simulation runs on a time of its
    /// own, and loses data without a failover.
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
        tell = all.function("tell")
        share = all.function("share")
        pace = all.function("pace")
    }

    /// All of the Lua.
    static func body(clock: String? = nil, server: String? = nil) -> String {
        let parts = [
            Gate.table, String(cString: chaul_lua_prelude()),
            clock.map { "clock = function() \($0) end" }, server.map { "identity = function() \($0) end" },
            String(cString: chaul_lua_functions()),
        ]
        return parts.compactMap(\.self).joined(separator: "\n")
    }
}
