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

    /// Records that the server did not answer, is not a primary, or is cut off from its cluster. `find` continues with the
    /// next known address. Of sentinels that know configurations of the same age, it then believes another one.
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

    /// Whether the sentinels name another primary now. Always false without sentinels.
    func isReplaced(_ server: RedisURL.Address) async -> Bool {
        guard case .sentinel = url.kind, let now = try? await find(timeout: .seconds(1)) else { return false }
        return now != server
    }

    /// What a sentinel knows about the primary.
    private struct Sighting: Sendable {
        let address: RedisURL.Address
        /// The number of the configuration. It grows with each failover.
        let epoch: Int
    }

    /// Asks all sentinels at once until most of them have answered, and believes the newest configuration. A sentinel
    /// that is cut off from the others, perhaps together with an old primary, would name that one for ever.
    private func ask(for primary: String, _ timeout: Duration) async throws(RedisError) -> RedisURL.Address {
        let sentinels = url.addresses.indices.map { url.addresses[(nextIndex + $0) % url.addresses.count] }
        let limit = min(timeout, .seconds(1))
        // Each has its place in the order, so that the first one counts among those that know the same configuration.
        var sightings: [Int: Sighting] = [:]
        var last = RedisError(.unreachable, "no sentinel is named")
        await withTaskGroup(of: (Int, Result<Sighting, RedisError>?).self) { group in
            for (place, sentinel) in sentinels.enumerated() {
                let task = Task { await sighting(of: primary, by: sentinel, limit) }
                group.addTask { (place, await task.value(until: ContinuousClock.now + limit * 2)) }
            }
            for await (place, result) in group {
                switch result {
                case .success(let sighting): sightings[place] = sighting
                case .failure(let error): last = error
                case nil: break
                }
                // Those that have not answered yet are not waited for.
                if sightings.count > sentinels.count / 2 { group.cancelAll() }
            }
        }
        let newest = sightings.max { ($0.value.epoch, $1.key) < ($1.value.epoch, $0.key) }
        guard let newest else {
            throw RedisError(.unreachable, "no sentinel names the primary \(primary): \(last.message)")
        }
        return newest.value.address
    }

    private func sighting(
        of primary: String, by sentinel: RedisURL.Address, _ limit: Duration
    ) async -> Result<Sighting, RedisError> {
        do throws(RedisError) {
            let connection = try await Connection.open(sentinel, Login(sentinelOf: url, name: name), timeout: limit)
            // During a failover only the first reply names the promoted replica. The second one may be forbidden.
            let queries = [
                Command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", primary), Command("SENTINEL", "MASTER", primary),
            ]
            let replies = try await connection.call(queries, timeout: limit)
            await connection.close()
            if case .error(let error) = replies[0] { throw error }
            guard let parts = replies[0].array, parts.count == 2, let host = parts[0].string,
                let port = parts[1].string.flatMap({ Int($0) })
            else {
                throw RedisError(
                    .unreachable, "the sentinel at \(sentinel) knows no primary named \(primary): correct the URL")
            }
            let fields = replies[1].array?.map(\.string) ?? []
            let index = fields.firstIndex(of: "config-epoch") ?? fields.endIndex
            let epoch = index + 1 < fields.endIndex ? fields[index + 1].flatMap { Int($0) } : nil
            return .success(Sighting(address: .tcp(host: host, port: port), epoch: epoch ?? 0))
        } catch {
            return .failure(error)
        }
    }
}
