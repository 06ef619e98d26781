import HaulBus
import HaulContract
import HaulDirect
import HaulHTTP
import HaulObjectStore
import HaulRedis
import HaulTerminal
import HaulWorker

// Makes the worker's configuration from the options.
extension WorkerCommand {
    /// - Throws: `ExitStatus.usage` if an option is wrong; the reason has been printed.
    func configured() throws -> WorkerConfiguration {
        var common = CommonOptions()
        common.redis = redis
        common.queue = nil
        common.json = false
        let url = try common.url()
        var result = try configuration(url, name: name ?? "\(Host.name)-\(Host.processID)")
        guard JobField.isID(result.name) else {
            throw ExitStatus.printing(.usage, "--name must be 1 to 128 of the characters A-Z a-z 0-9 . _ : -")
        }
        result.queues = try namedQueues()
        result.slots = try slotCount()
        result.kinds = try namedKinds()
        result.uploadFrom = uploadFrom
        result.sources = try namedSources()
        result.durability = durability
        result.fileMode = try permissions()
        result.keepsRemoteTime = remoteTime
        result.forbidsOverwrite = noOverwrite
        result.addressPolicy = .restricted(allowPrivate: allowPrivate, allowed: try networks())
        try checkRanges()
        result.policy.lease = .seconds(lease)
        result.graceTime = .seconds(grace)
        result.settleReplicas = settleReplicas
        result.minFree = keepFree.bytes
        result.limitRate = limitRate?.bytes
        result.maxFileSize = maxFileSize?.bytes
        result.gate = gate
        if let gateLimit { result.gateLimit = gateLimit }
        if let gateTimeout { result.gateTimeout = .seconds(gateTimeout) }
        result.connections = connections
        result.connectionsPerHost = connectionsPerHost
        result.proxy = proxy ?? Environment.text("HAUL_PROXY")
        result.certificateAuthorities = certificates
        guard client.certificate == nil || !client.hosts.isEmpty else {
            // Any producer may push a job, whose server would see the certificate.
            throw ExitStatus.printing(
                .usage,
                "--client-cert of a worker requires --client-cert-host HOST for each host that may see the certificate"
            )
        }
        result.clientCertificate = client.certificate
        result.webhookSecrets = try namedSecrets()
        guard http != nil || !exportQueues else {
            throw ExitStatus.printing(.usage, "--export-queues requires --http, the address at which to serve them")
        }
        result.exportsQueues = exportQueues
        return result
    }

    private func namedQueues() throws -> [ServedQueue] {
        let queues = try (queue.isEmpty ? [Environment.text("HAUL_QUEUE") ?? "default"] : queue).map(
            Self.queue)
        let names = queues.flatMap { $0.name.partitions.isEmpty ? [$0.name] : $0.name.partitions }
        guard Set(names).count == names.count else {
            throw ExitStatus.printing(.usage, "--queue names a queue twice: give it once, with a weight if need be")
        }
        for queue in queues { try Self.check(queue, beside: queues) }
        return queues
    }

    /// Jobs of a queue must not reach the folder of another queue.
    private static func check(_ queue: ServedQueue, beside others: [ServedQueue]) throws {
        guard let inner = others.first(where: { $0.folder != queue.folder && $0.isBeneath(queue) }) else { return }
        throw ExitStatus.printing(
            .usage,
            queue.folder.isEmpty
                ? "the queue \(queue.name) has no folder, so its jobs could reach \(inner.folder)/, the folder of \(inner.name): give each queue of this worker a folder, or none"
                : "the folder \(inner.folder)/ of the queue \(inner.name) is beneath \(queue.folder)/, the folder of \(queue.name): give them folders side by side"
        )
    }

    /// nil for `unlimited`.
    private func slotCount() throws -> Int? {
        if slots == "unlimited" { return nil }
        guard let count = Int(slots), count > 0 else {
            throw ExitStatus.printing(.usage, "--slots must be 1 or more, or unlimited, not \"\(slots)\"")
        }
        return count
    }

    private func namedKinds() throws -> [Job.Kind]? {
        let named = try kinds.map { text in
            try text.split(separator: ",").map { word in
                guard let kind = Job.Kind(rawValue: String(word)) else {
                    let known = Job.Kind.allCases.map(\.rawValue).joined(separator: ", ")
                    throw ExitStatus.printing(
                        .usage, "--kinds must be some of \(known), separated by commas, not \"\(word)\"")
                }
                return kind
            }
        }
        if named?.isEmpty == true { throw ExitStatus.printing(.usage, "--kinds must name at least one kind") }
        return named
    }

    private func namedSources() throws -> [BucketSource] {
        let sources = try source.map(namedSource)
        // Compared by bytes, as the keys of objects are.
        var known: Set<[UInt8]> = []
        for next in sources where !known.insert(Array("\(next.address)".utf8)).inserted {
            throw ExitStatus.printing(.usage, "--source names \(next.address) twice: give each bucket or prefix once")
        }
        return sources
    }

    /// Reads `s3://BUCKET/PREFIX=PROFILE`. The profile's endpoint and region come before those of the store's options.
    private func namedSource(_ text: String) throws -> BucketSource {
        let parts = text.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
        guard parts.count > 1 else {
            return BucketSource(try bucket.address(of: text, isSource: true), profile: nil)
        }
        let profile = BucketProfile(parts[1], Environment.text)
        guard profile.hasCredentials else {
            throw ExitStatus.printing(
                .usage,
                "--source \(text): the credentials file has no profile \"\(parts[1])\" with aws_access_key_id and aws_secret_access_key"
            )
        }
        do throws(Failure) { try profile.checkEndpoint() } catch {
            throw ExitStatus.printing(.usage, "--source \(text): \(error.message)")
        }
        var options = bucket
        options.endpoint = profile.endpoint ?? options.endpoint
        options.region = profile.region ?? options.region
        return BucketSource(try options.address(of: parts[0]), profile: parts[1])
    }

    private func namedSecrets() throws -> [String: String] {
        var files: [String: String] = [:]
        for text in webhookSecret {
            let parts = text.split(separator: "=", maxSplits: 1).map(String.init)
            guard parts.count == 2, JobField.isID(parts[0]) else {
                throw ExitStatus.printing(
                    .usage,
                    "--webhook-secret must be NAME=FILE, with a name of the characters A-Z a-z 0-9 . _ : -, not \"\(text)\""
                )
            }
            guard files.updateValue(parts[1], forKey: parts[0]) == nil else {
                throw ExitStatus.printing(.usage, "--webhook-secret names the secret \(parts[0]) twice")
            }
        }
        return files
    }

    private func permissions() throws -> UInt32? {
        try fileMode.map { text in
            guard let mode = UInt32(text, radix: 8), mode <= 0o777 else {
                throw ExitStatus.printing(
                    .usage, "--file-mode must be permissions in octal, 0 to 0777, not \"\(text)\"")
            }
            return mode
        }
    }

    private func networks() throws -> [Network] {
        try allowAddress.map { text in
            guard let network = Network(text) else {
                throw ExitStatus.printing(
                    .usage, "--allow-address must be an address or a network like 10.0.0.0/8, not \"\(text)\"")
            }
            return network
        }
    }

    private func checkRanges() throws {
        guard lease >= 2, lease <= 3600 else {
            throw ExitStatus.printing(.usage, "--lease must be from 2 to 3600 seconds, not \(lease)")
        }
        guard grace >= 0, grace <= 3600 else {
            throw ExitStatus.printing(.usage, "--grace must be from 0 to 3600 seconds, not \(grace)")
        }
        guard (0...100).contains(settleReplicas) else {
            throw ExitStatus.printing(.usage, "--settle-replicas must be from 0 to 100, not \(settleReplicas)")
        }
        guard gate?.allSatisfy(\.isWhitespace) != true else {
            throw ExitStatus.printing(.usage, "--gate must be a command of the shell, and is empty")
        }
        // Without its gate a worker would keep files that no program has seen.
        guard gate != nil || gateLimit == nil else {
            throw ExitStatus.printing(.usage, "--gate-limit requires --gate, the command that it limits")
        }
        guard gate != nil || gateTimeout == nil else {
            throw ExitStatus.printing(.usage, "--gate-timeout requires --gate, the command that it limits")
        }
        guard gateLimit.map({ (1...256).contains($0) }) ?? true else {
            throw ExitStatus.printing(.usage, "--gate-limit must be from 1 to 256, not \(gateLimit ?? 0)")
        }
        guard gateTimeout.map({ (1...86_400).contains($0) }) ?? true else {
            throw ExitStatus.printing(
                .usage, "--gate-timeout must be from 1 to 86400 seconds, not \(gateTimeout ?? 0)")
        }
        let sizes = 1...JobField.maxInteger
        guard [limitRate, maxFileSize].compactMap(\.self).allSatisfy({ sizes.contains($0.bytes) }) else {
            throw ExitStatus.printing(.usage, "--limit-rate and --max-file-size must be whole numbers, 1 or more")
        }
        guard (0...JobField.maxInteger).contains(keepFree.bytes) else {
            throw ExitStatus.printing(.usage, "--keep-free must be a whole number, 0 or more")
        }
        guard (1...16).contains(connections), connectionsPerHost >= 1 else {
            throw ExitStatus.printing(
                .usage,
                "--connections must be from 1 to 16, and --connections-per-host 1 or more, not \(connections) and \(connectionsPerHost)"
            )
        }
    }

    /// A configuration with its root or bucket.
    private func configuration(_ redis: RedisURL, name: String) throws -> WorkerConfiguration {
        switch (root, store) {
        case (let root?, nil): return WorkerConfiguration(redis: redis, root: root, name: name)
        case (nil, let store?):
            var result = WorkerConfiguration(redis: redis, bucket: try bucket.address(of: store), name: name)
            guard (64 << 20...1 << 40).contains(storeMemory.bytes) else {
                throw ExitStatus.printing(.usage, "--store-memory must be 64M or more, not \(storeMemory.bytes) bytes")
            }
            result.storeMemory = Int(storeMemory.bytes)
            return result
        case (nil, nil):
            throw ExitStatus.printing(
                .usage,
                "a worker requires --root, the directory for its downloads, or --store, a bucket of an object store")
        default: throw ExitStatus.printing(.usage, "--root and --store both say where downloads go: give one of them")
        }
    }

    /// Reads `NAME`, `NAME=WEIGHT`, `NAME:FOLDER/` or `NAME:FOLDER/=WEIGHT`. A name has neither ":" nor "=", and a
    /// folder ends with its last "/".
    private static func queue(_ text: String) throws -> ServedQueue {
        let nameEnd = text.firstIndex { $0 == ":" || $0 == "=" } ?? text.endIndex
        guard let name = QueueName(String(text[..<nameEnd])) else {
            throw ExitStatus.printing(
                .usage,
                "\"\(text[..<nameEnd])\" is not a valid queue name: use \(QueueName.rule)")
        }
        var rest = text[nameEnd...]
        var folder = ""
        if rest.first == ":" {
            let end = rest.lastIndex(of: "/").map { rest.index(after: $0) } ?? rest.startIndex
            let path = String(rest[..<end].dropFirst())
            guard JobField.isFile(String(path.dropLast())) else {
                throw ExitStatus.printing(
                    .usage,
                    "the folder of the queue \(name) must be a path beneath the root that ends with \"/\", like \(name):\(name)/, not \"\(rest.dropFirst())\""
                )
            }
            folder = path.pathParts.joined(separator: "/")
            rest = rest[end...]
        }
        guard !rest.isEmpty else { return ServedQueue(name, folder: folder) }
        guard rest.first == "=", let weight = Int(rest.dropFirst()), (1...1000).contains(weight) else {
            throw ExitStatus.printing(
                .usage,
                "the weight of the queue \(name) must be \"=\" and a whole number from 1 to 1000, not \"\(rest)\"")
        }
        return ServedQueue(name, weight: weight, folder: folder)
    }
}

extension ServedQueue {
    /// Whether the folder is in that of another queue.
    fileprivate func isBeneath(_ other: ServedQueue) -> Bool {
        other.folder.isEmpty || folder.hasPrefix(other.folder + "/")
    }
}
