/// Finds the server that commands go to: always the same one, the primary that sentinels name, or the node of a cluster
/// that serves a slot.
struct Locator: Sendable {
    let url: RedisURL
    let name: String
    /// What is asked: addresses of the URL, and other nodes of the cluster as they become known.
    private var addresses: [RedisURL.Address]
    private var next = 0
    /// Where MOVED said that the slot is.
    private var moved: RedisURL.Address?

    init(_ url: RedisURL, name: String) {
        (self.url, self.name) = (url, name)
        addresses = url.addresses
    }

    var login: Login { Login(url, name: name) }

    /// The server to connect to now.
    func find(timeout: Duration) async throws(RedisError) -> RedisURL.Address {
        if case .sentinel(let primary) = url.kind { return try await Self.ask(url, for: primary, name, timeout) }
        return moved ?? addresses[next % addresses.count]
    }

    /// What it means that no connection to the server that was found comes about.
    func meaning(of error: RedisError) -> RedisError {
        guard case .sentinel(let primary) = url.kind, error.code == .unreachable else { return error }
        return RedisError(.noPrimary, "the sentinels name a primary \(primary) that does not answer: \(error.message)")
    }

    /// Nobody answered there: another node may know more.
    mutating func failed() {
        moved = nil
        next += 1
    }

    /// Follows a MOVED reply. False if it names no place.
    mutating func follow(_ error: RedisError, from asked: RedisURL.Address?) -> Bool {
        guard error.code == .moved, let place = error.place, let address = RedisURL.clusterAddress(place, of: asked)
        else {
            return false
        }
        moved = address
        // What a cluster names may know more when this one is gone.
        if !addresses.contains(address) { addresses.append(address) }
        return true
    }

    /// The primary, as the first sentinel that answers knows it.
    private static func ask(
        _ url: RedisURL, for primary: String, _ name: String, _ timeout: Duration
    ) async throws(RedisError) -> RedisURL.Address {
        var last = RedisError(.unreachable, "no sentinel is named")
        for sentinel in url.addresses {
            do throws(RedisError) {
                let connection = try await Connection.open(
                    sentinel, Login(sentinelOf: url, name: name), timeout: min(timeout, .seconds(1)))
                let question = Command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", primary)
                let reply = try await connection.call([question], timeout: .seconds(1))[0]
                await connection.close()
                if case .error(let error) = reply { throw error }
                if let parts = reply.array, parts.count == 2, let host = parts[0].string, let port = parts[1].string,
                    let port = Int(port)
                {
                    return .tcp(host: host, port: port)
                }
                last = RedisError(
                    .unreachable, "the sentinel at \(sentinel) knows no primary named \(primary): correct the URL")
            } catch {
                last = error
            }
        }
        throw RedisError(.unreachable, "no sentinel names the primary \(primary): \(last.message)")
    }
}
