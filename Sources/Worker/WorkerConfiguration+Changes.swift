// The settings that may change while a worker runs.
extension WorkerConfiguration {
    /// This configuration, with the settings of `new` that a running worker can apply.
    func applying(_ new: WorkerConfiguration) -> WorkerConfiguration {
        var result = self
        result.slots = new.slots
        result.limitRate = new.limitRate
        result.connections = new.connections
        result.connectionsPerHost = new.connectionsPerHost
        result.maxFileSize = new.maxFileSize
        result.certificateAuthorities = new.certificateAuthorities
        result.clientCertificate = new.clientCertificate
        result.webhookSecrets = new.webhookSecrets
        (result.gate, result.gateLimit, result.gateTimeout) = (new.gate, new.gateLimit, new.gateTimeout)
        return result
    }

    /// The names of the command's options that differ.
    func changes(to other: WorkerConfiguration) -> [String] {
        zip(Mirror(reflecting: self).children, Mirror(reflecting: other).children).compactMap { mine, theirs in
            guard let label = mine.label, "\(mine.value)" != "\(theirs.value)" else { return nil }
            return Self.options[label] ?? label
        }
    }

    /// The options whose names are not those of their properties.
    private static let options = [
        "queues": "queue", "fileMode": "file-mode", "keepsRemoteTime": "remote-time", "addressPolicy": "allow-address",
        "policy": "lease", "graceTime": "grace", "settleReplicas": "settle-replicas", "limitRate": "limit-rate",
        "certificateAuthorities": "ca", "clientCertificate": "client-cert", "webhookSecrets": "webhook-secret",
        "maxFileSize": "max-file-size", "gateLimit": "gate-limit", "gateTimeout": "gate-timeout",
        "bucket": "store", "storeMemory": "store-memory", "uploadFrom": "upload-from", "sources": "source",
        "forbidsOverwrite": "no-overwrite",
        "minFree": "keep-free", "connectionsPerHost": "connections-per-host", "exportsQueues": "export-queues",
    ]
}
