extension Redis {
    /// Loads a library on every server on which functions may be called: this client's server, or all primaries of its
    /// cluster. These servers persist and replicate the library. Returns the number of servers.
    @discardableResult
    package func load(_ library: Library) async throws(RedisError) -> Int {
        let servers = try await servers()
        for server in servers {
            try await server.send(library.load)
            if server !== self { await server.close() }
        }
        return servers.count
    }

    /// This client itself, or new clients for all primaries of its cluster. The caller closes the new clients.
    package func servers() async throws(RedisError) -> [Redis] {
        let nodes = try await clusterPrimaries()
        guard !nodes.isEmpty else { return [self] }
        return nodes.map { node in
            var address = url
            (address.kind, address.addresses) = (.single, [node])
            return Redis(address, name: "haul-all")
        }
    }

    /// The primaries that serve slots. Empty if the server is not a node of a cluster.
    private func clusterPrimaries() async throws(RedisError) -> [RedisURL.Address] {
        let reply = try await pipeline([.command(Command("CLUSTER", "SLOTS"))])[0]
        if case .error(let error) = reply {
            // The server has cluster mode off, or its ACL forbids CLUSTER.
            if error.code == .reply || error.code == .noPermission && url.kind != .cluster { return [] }
            throw error
        }
        let current = server
        var nodes: [RedisURL.Address] = []
        for range in reply.array ?? [] {
            // The elements of a range: first slot, last slot, primary, replicas.
            guard let range = range.array, range.count > 2, let node = range[2].array, node.count > 1,
                let port = node[1].int,
                let address = RedisURL.clusterAddress("\(node[0].string ?? ""):\(port)", of: current),
                !nodes.contains(address)
            else { continue }
            nodes.append(address)
        }
        return nodes
    }
}
