/// Finds the server that commands go to: always the same one, the primary that sentinels name, or the node of a cluster
/// that serves a slot.
struct PrimaryLocator: Sendable {
    let url: RedisURL
    let name: String
    /// The addresses to try in turn: those of the URL, and the cluster nodes that MOVED replies have named.
    private var addresses: [RedisURL.Address]
    private var nextIndex = 0
    /// The node that the last MOVED reply named.
    private var movedTo: RedisURL.Address?
    /// Why the node that the last MOVED reply named could not be reached; nil if it could.
    private(set) var failureOfMove: RedisError?

    init(_ url: RedisURL, name: String) {
        (self.url, self.name) = (url, name)
        addresses = url.addresses
    }

    var login: Login { Login(url, name: name) }

    /// The server to connect to now.
    ///
    /// - Throws: `.unreachable` if no sentinel names the primary.
    func find(timeout: Duration) async throws(RedisError) -> RedisURL.Address {
        if case .sentinel(let primary) = url.kind { return try await ask(for: primary, timeout) }
        return movedTo ?? addresses[nextIndex % addresses.count]
    }

    /// Translates the error of a connection to the server that `find` returned. With sentinels `.unreachable` becomes
    /// `.noPrimary`.
    func meaning(of error: RedisError) -> RedisError {
        guard case .sentinel(let primary) = url.kind, error.code == .unreachable else { return error }
        return RedisError(.noPrimary, "the sentinels name a primary \(primary) that does not answer: \(error.message)")
    }

    /// Records that the server has answered.
    mutating func reached() { if movedTo != nil { failureOfMove = nil } }

    /// Records that the server did not answer, or is not a primary. `find` continues with the next known address, which may
    /// be that of a sentinel: the last one that was asked may be cut off from the others, and name an old primary for ever.
    mutating func failed(_ error: RedisError) {
        if movedTo != nil { failureOfMove = error }
        movedTo = nil
        nextIndex += 1
    }

    /// Follows a MOVED reply. Returns false if `error` is not a MOVED reply or names no address.
    mutating func follow(_ error: RedisError, from server: RedisURL.Address?) -> Bool {
        guard error.code == .moved, let target = error.redirectTarget,
            let address = RedisURL.clusterAddress(target, of: server)
        else {
            return false
        }
        (movedTo, failureOfMove) = (address, movedTo == nil ? failureOfMove : nil)
        // This node can answer later, when the URL's own nodes are gone.
        if !addresses.contains(address) { addresses.append(address) }
        return true
    }

    /// Asks the sentinels in turn. Returns the primary that the first answering sentinel names.
    private func ask(for primary: String, _ timeout: Duration) async throws(RedisError) -> RedisURL.Address {
        var last = RedisError(.unreachable, "no sentinel is named")
        for offset in url.addresses.indices {
            let sentinel = url.addresses[(nextIndex + offset) % url.addresses.count]
            do throws(RedisError) {
                let connection = try await Connection.open(
                    sentinel, Login(sentinelOf: url, name: name), timeout: min(timeout, .seconds(1)))
                let query = Command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", primary)
                let reply = try await connection.call([query], timeout: .seconds(1))[0]
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
