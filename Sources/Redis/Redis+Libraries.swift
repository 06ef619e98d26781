extension Redis {
    /// Loads a library on every server that functions may be called on: the one that commands go to, or all primaries of its
    /// cluster. Replicas and the servers' own files get it from them. Returns how many there were.
    @discardableResult
    package func load(_ library: Library) async throws(RedisError) -> Int {
        let servers = try await servers()
        for server in servers {
            try await server.send(library.load)
            if server !== self { await server.close() }
        }
        return servers.count
    }

    /// This client, or clients of all primaries of its cluster, which the caller closes.
    package func servers() async throws(RedisError) -> [Redis] {
        let nodes = try await clusterPrimaries()
        guard !nodes.isEmpty else { return [self] }
        return nodes.map { node in
            var address = url
            (address.kind, address.addresses) = (.single, [node])
            return Redis(address, name: "haul-all")
        }
    }

    /// Those that serve slots; none where the server is no node of a cluster.
    private func clusterPrimaries() async throws(RedisError) -> [RedisURL.Address] {
        let reply = try await pipeline([.command(Command("CLUSTER", "SLOTS"))])[0]
        if case .error(let error) = reply {
            // It has no cluster, which it says or hides.
            if error.code == .reply || error.code == .noPermission && url.kind != .cluster { return [] }
            throw error
        }
        let asked = place
        var nodes: [RedisURL.Address] = []
        for range in reply.array ?? [] {
            // First slot, last slot, the primary, its replicas.
            guard let range = range.array, range.count > 2, let node = range[2].array, node.count > 1,
                let port = node[1].int,
                let address = RedisURL.clusterAddress("\(node[0].string ?? ""):\(port)", of: asked),
                !nodes.contains(address)
            else { continue }
            nodes.append(address)
        }
        return nodes
    }
}
