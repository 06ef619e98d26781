import HaulContract
package import HaulRedis

// Checks of the keys that do not belong to jobs.

extension Inspection {
    enum KeyKind {
        /// A job's hash.
        case job(String)
        /// Another key of a job.
        case part(String)
        /// A key that must have a time to live.
        case volatile
        case fixed, unknown
    }

    func kind(of key: String) -> KeyKind {
        guard let (name, subject) = KeyName.read(key.dropFirst(queue.keys.prefix.count)) else { return .unknown }
        switch name {
        case .job: return .job(subject)
        case .spec, .offsets: return .part(subject)
        case .worker, .host, .reply, .history, .url: return .volatile
        default: return .fixed
        }
    }

    /// What does not work while a key has another type. While a key that is not listed here has one, no function works,
    /// since Settings.read() of Lua/core/settings.lua fails.
    private static let effects: [KeyName: String] = [
        .rejected: "elements that are not valid jobs cannot be rejected, and block the queue",
        .tick: "no worker maintains the queue: no control operation is applied, and no lost job runs again",
        .workers: "no worker maintains the queue: no control operation is applied, and no lost job runs again",
        .want: "no job is claimed, and no control operation is applied",
        .changes: "who changes what is not recorded",
        .totals: "no figures of the whole fleet are kept", .permits: "workers delete it by themselves",
        .epoch: "workers write it again by themselves", .pacer: "workers write it again by themselves",
        .defaults: "jobs have no defaults, and a relative url is rejected",
        .rateLeases: "workers delete it by themselves", .starts: "workers delete it by themselves",
        .limits: "hosts have no limits of their own",
        .hosts: "jobs that wait for a host may overtake each other",
        .deferredHosts: "no host is limited, and jobs that wait for one stay there",
        .backoff: "hosts that ask for a pause get none",
        .log: "events are published, and not kept",
        .schedules: "no schedule pushes its job", .scheduleDue: "no schedule pushes its job",
        .schedulePaused: "schedules are paused as their definitions say",
        .responses: "responses are not bounded", .responseBytes: "responses are not bounded",
        .undeliveredReplies: "a call pushes all its events onto reply lists at once, however long that takes",
        .owedSteps: "jobs that Redis itself fails are not followed by their else",
        .replyBytes: "the bytes of events in reply lists are not bounded",
        .batches: "batches are counted, but not listed",
        .recheck:
            "control operations for jobs that wait for a host or a kind are applied only when the jobs are claimed",
        .urls: "jobs that are claimed are not found by their URLs",
        .removed: "what killed workers left of removed jobs stays for 8 days",
        .groups: "workers write it again by themselves",
        .deferredGroups: "groups take no turns, and jobs that wait for one stay there",
        .deferredKinds: "jobs of a kind that some workers do not do are not claimed by others",
    ]

    private static let volatileKeyEffects: [KeyName: String] = [
        .worker: "this worker can do nothing", .host: "no worker on this machine maintains the queue",
        .reply: "no event is pushed onto it", .history: "the history lacks this hour",
        .url: "only one of the jobs of this URL is found by it",
    ]

    /// Checks the keys of which a queue has only one. `stops` says that no function works.
    func checkTypes() async throws(RedisError) -> (stops: Bool, findings: [Finding]) {
        let names = KeyName.allCases.filter { !$0.isPrefix }.sorted { $0.rawValue < $1.rawValue }
        let found = try await types(of: names.map { queue.keys[$0] })
        var stops = false
        let findings = zip(names, found).compactMap { name, type -> Finding? in
            guard let type, type != name.type else { return nil }
            stops = stops || Self.effects[name] == nil
            return wrongType(queue.keys[name], type, name.type, Self.effects[name] ?? "nothing of the queue works")
        }
        return (stops, findings)
    }

    func wrongType(_ key: String, _ type: String, _ right: String, _ effect: String) -> Finding {
        Finding(key, "it is a \(type), and must be a \(right)", "rename or delete it: meanwhile \(effect)")
    }

    func unknownKey(_ key: String) -> Finding {
        guard KeyName.isVersion01Key(key.dropFirst(queue.keys.prefix.count)) else {
            return Finding(key, "the contract has no such key", "see what wrote it, and delete it")
        }
        return Finding(
            key, "Haul 0.1 wrote it, and this version does not read it",
            "finish what it holds with workers of 0.1, then delete it: docs/operate/upgrade.md, \"From 0.1 to 0.2\"")
    }

    /// The types of keys; nil for a key that does not exist, or whose type this user may not read.
    func types(of keys: [String]) async throws(RedisError) -> [String?] {
        try await queue.redis.pipeline(keys.map { .command(Command("TYPE", $0)) }).map {
            $0.string == "none" ? nil : $0.string
        }
    }

    /// Checks the types of the keys that every call of this worker accesses.
    package func wrongTypes(for worker: WorkerIdentity) async throws(RedisError) -> [Finding] {
        let unusable = Self.volatileKeyEffects[.worker]!
        let own: [(key: String, type: String, effect: String)] = [
            (queue.keys.worker(worker.name), KeyName.worker.type, unusable),
            (queue.keys.host(worker.hostIdentity), KeyName.host.type, Self.volatileKeyEffects[.host]!),
            (queue.keys.held(worker.name), KeyName.held.type, unusable),
        ]
        let found = try await types(of: own.map(\.key))
        return try await checkTypes().findings
            + zip(own, found).compactMap { own, type in
                guard let type, type != own.type else { return nil }
                return wrongType(own.key, type, own.type, own.effect)
            }
    }

    /// `Keys.indexes`, and `responses` unless that key has another type.
    func soundIndexes() async throws(RedisError) -> [String] {
        let isSound = try await types(of: [queue.keys.responses])[0] ?? "zset" == KeyName.responses.type
        return queue.keys.indexes + (isSound ? [queue.keys.responses] : [])
    }

    func checkSettings() async throws(RedisError) -> [Finding] {
        let reply = try await queue.redis.send(Command("HGETALL", queue.keys.settings))
        return reply.dictionary.sorted { $0.key < $1.key }.compactMap { name, value in
            let setting = QueueSetting(name: name)
            if setting?.accepts(value) == true {
                guard setting == .rate else { return nil }
                return unknownZone(of: RateSchedule(value), name, queue.keys.settings)
            }
            return Finding(
                queue.keys.settings, "\(name) \(setting?.rule ?? "is not a setting"), not \"\(value)\"",
                "HSET or HDEL it; it has no effect")
        }
    }

    /// A rate that depends on the time in a zone that this machine does not know.
    private func unknownZone(of rate: RateSchedule?, _ name: String, _ key: String) -> Finding? {
        rate?.unknownZone.map {
            Finding(
                key, "\(name): this machine does not know the time zone \($0)",
                "check its spelling, or install tzdata; where the zone is unknown, the lowest of the rates holds")
        }
    }

    private func exists(_ key: String) async throws(RedisError) -> Bool {
        try await queue.redis.send(Command("EXISTS", key)).int == 1
    }

    func checkDefaults() async throws(RedisError) -> [Finding] {
        guard try await exists(queue.keys.defaults) else { return [] }
        // Another type is reported by checkTypes().
        let reply = try await queue.redis.pipeline([.command(Command("HGETALL", queue.keys.defaults))])[0]
        return reply.dictionary.sorted { $0.key < $1.key }.compactMap { name, value in
            let known = QueueDefault(name: name)
            if known?.accepts(value) == true { return nil }
            return Finding(
                queue.keys.defaults, "\(name) \(known?.rule ?? "can have no default"), not \(value.prefix(200))",
                "HSET or HDEL it; it has no effect. A value is JSON, so a text needs quotes")
        }
    }

    func checkLimits() async throws(RedisError) -> [Finding] {
        guard try await exists(queue.keys.limits) else { return [] }
        let reply = try await queue.redis.pipeline([.command(Command("HGETALL", queue.keys.limits))])[0]
        return reply.dictionary.sorted { $0.key < $1.key }.flatMap { host, value -> [Finding] in
            let faults = HostLimit.faults(of: host, value).map {
                Finding(queue.keys.limits, "\(host): \($0)", "HSET or HDEL it; it has no effect")
            }
            let ofZone = unknownZone(of: HostLimit.rate(value), "\(host): rate", queue.keys.limits)
            return faults + [ofZone].compactMap(\.self)
        }
    }

    func checkSchedules() async throws(RedisError) -> [Finding] {
        guard try await exists(queue.keys.schedules),
            try await types(of: [queue.keys.schedules])[0] == KeyName.schedules.type
        else { return [] }
        let count = try await queue.scheduleCount()
        let excess = Finding(
            queue.keys.schedules, "it has \(count) schedules, and workers plan no new ones beyond \(Schedule.maxCount)",
            "delete those that are not used")
        let faults: [Finding] = try await queue.schedules().compactMap { record in
            // A worker removes the mark when it plans the schedule.
            let unplanned = record.fields["left_at"].map { _ in
                "no worker has planned it so far, because their machines do not know the time zone \(record.schedule?.zone ?? "")"
            }
            return (record.error ?? unplanned).map {
                Finding(
                    queue.keys.schedules, "\(record.name): \($0)",
                    "haul schedule add replaces it, and haul schedule remove deletes it; it pushes nothing")
            }
        }
        return count > Schedule.maxCount ? [excess] + faults : faults
    }

    /// Checks keys that must expire, like those of workers and reply lists.
    func checkVolatile(_ names: [String], repairing: Bool) async throws(RedisError) -> [Finding] {
        let found = try await types(of: names)
        var (sound, findings): ([String], [Finding]) = ([], [])
        for (key, type) in zip(names, found) {
            guard let type, let name = KeyName.read(key.dropFirst(queue.keys.prefix.count))?.name,
                let effect = Self.volatileKeyEffects[name]
            else { continue }
            // A key of another type is not Haul's, and is not changed.
            if type == name.type {
                sound.append(key)
            } else {
                findings.append(wrongType(key, type, name.type, effect))
            }
        }
        let times = try await queue.redis.pipeline(sound.map { .command(Command("PTTL", $0)) })
        let persistent = zip(sound, times).filter { $1.int == -1 }.map(\.0)
        if repairing {
            // NX: only if there still is no time to live.
            _ = try await queue.redis.pipeline(
                persistent.map { .command(Command("PEXPIRE", $0, 86_400_000, "NX")) })
        }
        return findings
            + persistent.map {
                Finding($0, "it would never expire", "--repair sets a time to live", isRepaired: repairing)
            }
    }

    /// Checks for operations and files that wait too long. Ticks apply operations within a second, and a store's
    /// workers delete its files.
    func checkWaiting() async throws(RedisError) -> [Finding] {
        let keys = queue.keys
        let now = try await queue.time()
        var findings: [Finding] = []
        let replies = try await queue.redis.pipeline([
            .command(Command("HLEN", keys.want)), .command(Command("GET", keys.tick)),
        ])
        let examine = Int64(field: replies[1].string.map { String($0.prefix { $0 != " " }) }) ?? 0
        if let count = replies[0].int, count > 0, now - examine > 10_000 {
            findings.append(
                Finding(
                    keys.want, "\(count) control operations wait, and no worker maintains the queue", "start a worker"))
        }
        var lists: Set<String> = []
        try await forEachPageOfKeys(.deletions) { names throws(RedisError) in lists.formUnion(names) }
        for list in lists.sorted() {
            let replies = try await queue.redis.pipeline([
                .command(Command("LLEN", list)), .command(Command("LINDEX", list, -1)),
            ])
            guard let count = replies[0].int,
                let oldest = try? JSON(replies[1].bytes ?? []).array?.dropFirst(4).first?.string
            else {
                findings.append(Finding(list, "it must be a list of files", "rename or delete it"))
                continue
            }
            guard now - (Int64(field: oldest) ?? 0) > 60_000 else { continue }
            findings.append(
                Finding(
                    list, "\(count) files are to be deleted, and no worker serves their store",
                    "start a worker with that root, or delete the list to keep them"))
        }
        return try await findings + checkKinds(now) + checkDropping(now)
    }

    /// Checks for elements of kinds that this version does not know. They may be a later version's, or a mistake.
    private func checkKinds(_ now: Int64) async throws(RedisError) -> [Finding] {
        let reply = try await queue.redis.send(
            Command("HRANDFIELD", queue.keys.deferredKinds, 100, "WITHVALUES"))
        return reply.dictionary.sorted { $0.key < $1.key }.compactMap { kind, time in
            guard Job.Kind(rawValue: kind) == nil, now - (Int64(field: time) ?? 0) > 60_000 else { return nil }
            return Finding(
                queue.keys.deferredKind(kind), "its elements wait for a worker that does this kind",
                "start a worker of a version that does, or delete the list; it expires a week after its last element")
        }
    }

    /// Checks for files that a worker should have unlinked. Another worker of the store gets them after 10 s.
    private func checkDropping(_ now: Int64) async throws(RedisError) -> [Finding] {
        var keys: Set<String> = []
        try await forEachPageOfKeys(.deleting) { names throws(RedisError) in keys.formUnion(names) }
        var findings: [Finding] = []
        for key in keys.sorted() {
            let reply = try await queue.redis.pipeline([.command(Command("HGETALL", key))])[0]
            if case .error = reply {
                findings.append(Finding(key, "it must be a hash of files", "rename or delete it"))
                continue
            }
            let old = reply.dictionary.values.filter { now - (Int64(field: $0) ?? 0) > 60_000 }
            guard !old.isEmpty else { continue }
            findings.append(
                Finding(
                    key, "\(old.count) files were assigned to workers that have not confirmed their deletion",
                    "start a worker with that root, or delete the hash to keep them"))
        }
        return findings
    }

    /// Checks for elements that an unknown worker holds. Ticks return those of known workers.
    func checkHeld(repairing: Bool) async throws(RedisError) -> [Finding] {
        var findings: [Finding] = []
        for list in try await heldLists() {
            let worker = String(list.dropFirst(queue.keys.held("").count))
            let replies = try await queue.redis.pipeline([
                .command(Command("LLEN", list)), .command(Command("ZSCORE", queue.keys.workers, worker)),
            ])
            if case .error = replies[0] {
                findings.append(Finding(list, "it must be a list", "rename or delete it"))
            } else if replies[0].int ?? 0 > 0, replies[1] == .null {
                if repairing { try await recover(worker) }
                findings.append(
                    Finding(
                        list, "its worker is not known, so no tick returns what it holds",
                        "--repair returns it to the front of the queue", isRepaired: repairing))
            }
        }
        return findings
    }

    /// Checks for elements that wait for a host, a kind or a group of which no worker knows that something waits.
    func checkDeferred(repairing: Bool) async throws(RedisError) -> [Finding] {
        let now = try await queue.time()
        let (hosts, kinds, groups) = (queue.keys[.deferredHosts], queue.keys.deferredKinds, queue.keys[.deferredGroups])
        var findings: [Finding] = []
        for name in [KeyName.deferredHost, .deferredKind, .deferredGroup] {
            for list in try await lists(name) {
                let owner = String(list.dropFirst(queue.keys[name].count))
                let index = name == .deferredHost ? hosts : name == .deferredKind ? kinds : groups
                // In one call, because a worker may return the elements meanwhile.
                let replies = try await queue.redis.pipeline(
                    [.command(Command("LLEN", list))]
                        + (name == .deferredHost
                            // A worker of an earlier version records hosts in the hash.
                            ? [
                                .command(Command("ZSCORE", hosts, owner)),
                                .command(Command("HGET", queue.keys.hosts, "line " + owner)),
                            ]
                            : name == .deferredKind
                                ? [.command(Command("HGET", kinds, owner))]
                                : [.command(Command("ZSCORE", groups, owner))]))
                if case .error = replies[0] {
                    findings.append(Finding(list, "it must be a list", "rename or delete it"))
                } else if replies[0].int ?? 0 > 0, replies.dropFirst().allSatisfy({ $0 == .null }) {
                    if repairing {
                        try await queue.redis.send(
                            name == .deferredKind
                                ? Command("HSET", kinds, owner, now)
                                // The score of a group says whose turn it is, and 0 is the next one.
                                : Command("ZADD", index, "NX", name == .deferredHost ? now : 0, owner))
                    }
                    findings.append(
                        Finding(
                            list, "elements wait there, and \(index) does not say so",
                            "--repair adds them to it, so that workers claim them", isRepaired: repairing))
                }
            }
        }
        return findings
    }

    private func recover(_ worker: String) async throws(RedisError) {
        var reply: RedisValue
        repeat {
            reply = try await queue.redis.run(
                queue.functions.recover, keys: queue.keys.functionKeys(for: worker), arguments: [Token.make(), worker])
        } while reply.string == "0"
    }
}
