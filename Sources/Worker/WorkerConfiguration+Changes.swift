// What may change while a worker works.
extension WorkerConfiguration {
    /// This one, with what of `new` can be taken by a worker that works.
    func taking(_ new: WorkerConfiguration) -> WorkerConfiguration {
        var result = self
        result.slots = new.slots
        result.limitRate = new.limitRate
        result.connections = new.connections
        result.connectionsPerHost = new.connectionsPerHost
        result.maximumSize = new.maximumSize
        result.certificateAuthorities = new.certificateAuthorities
        result.clientCertificate = new.clientCertificate
        return result
    }

    /// The names of the command's options that differ.
    func changes(to other: WorkerConfiguration) -> [String] {
        zip(Mirror(reflecting: self).children, Mirror(reflecting: other).children).compactMap { mine, theirs in
            guard let label = mine.label, "\(mine.value)" != "\(theirs.value)" else { return nil }
            return Self.options[label] ?? label
        }
    }

    /// Properties by other names than their options have.
    private static let options = [
        "queues": "queue", "fileMode": "file-mode", "keepsRemoteTime": "remote-time", "addressPolicy": "allow-address",
        "policy": "lease", "graceTime": "grace", "settleReplicas": "settle-replicas", "limitRate": "limit-rate",
        "certificateAuthorities": "ca", "clientCertificate": "client-cert", "maximumSize": "max-file-size",
        "bucket": "store", "storeMemory": "store-memory",
        "keptFree": "keep-free", "connectionsPerHost": "connections-per-host", "exportsQueues": "export-queues",
    ]
}
