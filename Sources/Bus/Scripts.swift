import Redis

/// The bus' Lua, put together from the files in Scripts/.
enum Scripts {
    static let claim = script("claim", "", [gated, take, PackageResources.claim_lua])
    // All but claim run when Redis is out of memory, too: leases are kept, results are written, a full Redis drains.
    static let settle = script(
        "settle", mayFill, [gated, take, PackageResources.report_lua, PackageResources.settle_lua])
    static let tick = script("tick", mayFill, [nonce, PackageResources.report_lua, PackageResources.tick_lua])
    static let register = script("register", mayFill, [nonce, PackageResources.register_lua])

    static let inspect = script("inspect", mayFill, [nonce, PackageResources.inspect_lua])

    private static let mayFill = " flags=allow-oom"
    private static let take = PackageResources.take_lua
    private static let nonce = Array("local NONCE = ARGV[1]\nlocal ID = '^[A-Za-z0-9._:-]+$'\n".utf8)
    private static let gated = PackageResources.raw_lua + Array(Gate.lua.utf8)

    private static func script(_ name: String, _ flags: String, _ parts: [[UInt8]]) -> Script {
        // The gate names what the prelude uses, so it comes first.
        let all = [parts[0], PackageResources.prelude_lua] + parts.dropFirst()
        let source = all.map { String(decoding: $0, as: UTF8.self) }.joined(separator: "\n")
        // With this line Redis decides whether it may run before it runs, not in its middle.
        return Script(name: name, source: "#!lua\(flags)\n\(source)")
    }
}
