import HaulRedis

/// The bus' Lua, put together from the files in Lua/ to one library of Redis functions.
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
    }

    /// All of the Lua.
    static func body(clock: String? = nil, server: String? = nil) -> String {
        let parts = [
            Array(Gate.table.utf8), PackageResources.prelude_lua,
            clock.map { Array("clock = function() \($0) end".utf8) } ?? [],
            server.map { Array("identity = function() \($0) end".utf8) } ?? [],
            PackageResources.isolate_lua, PackageResources.states_lua, PackageResources.json_lua,
            PackageResources.raw_lua, PackageResources.url_lua, PackageResources.gate_lua,
            PackageResources.places_lua, PackageResources.replies_lua, PackageResources.push_lua,
            PackageResources.order_lua,
            PackageResources.kinds_lua, PackageResources.take_lua,
            PackageResources.report_lua, PackageResources.claim_lua, PackageResources.settle_lua,
            PackageResources.share_lua, PackageResources.drop_lua, PackageResources.lose_lua,
            PackageResources.history_lua, PackageResources.heartbeat_lua, PackageResources.watch_lua,
            PackageResources.requests_lua,
            PackageResources.runs_lua, PackageResources.report_runs_lua, PackageResources.reap_lua,
            PackageResources.neighbours_lua, PackageResources.promote_lua, PackageResources.overdue_lua,
            PackageResources.expire_lua, PackageResources.trim_lua, PackageResources.tick_lua,
            PackageResources.register_lua, PackageResources.leave_lua, PackageResources.tell_lua,
            PackageResources.inspect_lua, PackageResources.recover_lua,
        ]
        return parts.map { String(decoding: $0, as: UTF8.self) }.joined(separator: "\n")
    }
}
