import Redis

/// The bus' Lua, put together from the files in Scripts/.
struct Scripts: Sendable {
    let claim: Script
    let settle: Script
    let tick: Script
    let register: Script
    let leave: Script
    let inspect: Script
    let recover: Script

    static let product = Scripts()

    /// `clock` is Lua that takes the place of the prelude's clock(): a simulation runs on a time of its own.
    init(clock: String? = nil) {
        let take = PackageResources.take_lua
        let report = PackageResources.report_lua
        let nonce = Array("local NONCE = ARGV[1]\nlocal ID = '^[A-Za-z0-9._:-]+$'\n".utf8)
        let gated = PackageResources.raw_lua + Array(Gate.lua.utf8)
        func script(_ name: String, flags: String = " flags=allow-oom", _ parts: [[UInt8]]) -> Script {
            // The gate names what the prelude uses, so it comes first.
            let all = [parts[0], Self.prelude(clock)] + parts.dropFirst()
            let source = all.map { String(decoding: $0, as: UTF8.self) }.joined(separator: "\n")
            // With this line Redis decides whether it may run before it runs, not in its middle.
            return Script(name: name, source: "#!lua\(flags)\n\(source)")
        }
        claim = script("claim", flags: "", [gated, take, PackageResources.claim_lua])
        // All but claim run when Redis is out of memory, too: leases are kept, results are written, a full Redis drains.
        settle = script("settle", [gated, take, report, PackageResources.settle_lua])
        tick = script("tick", [nonce, report, PackageResources.tick_lua])
        register = script("register", [nonce, PackageResources.register_lua])
        leave = script("leave", [nonce, PackageResources.leave_lua])
        inspect = script("inspect", [nonce, PackageResources.inspect_lua])
        recover = script("recover", [nonce, PackageResources.recover_lua])
    }

    private static func prelude(_ clock: String?) -> [UInt8] {
        guard let clock else { return PackageResources.prelude_lua }
        let text = String(decoding: PackageResources.prelude_lua, as: UTF8.self)
        let now = "local now = clock()"
        precondition(text.contains(now))
        return Array(text.replacing(now, with: "clock = function() \(clock) end\n\(now)").utf8)
    }
}
