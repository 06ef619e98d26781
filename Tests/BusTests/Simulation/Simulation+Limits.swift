import HaulContract
import HaulRedis
import HaulTestSupport

@testable import HaulBus

// Limits that the fleet shares, and defaults of the queue.

extension Simulation {
    // MARK: Settings

    func setDefaults() async throws { try await queue.set(.base, to: #""http://h0/""#) }

    mutating func changeDefaults() async throws {
        let retries = ["2", "3", nil, "many"].randomElement(using: &random)!
        try await set("retries", to: retries)
        try await set("meta", to: random.chance(50) ? #"{"default":1}"# : nil)
        record("defaults")
    }

    private func set(_ name: String, to value: String?) async throws {
        try await redis.send(
            value.map { Command("HSET", queue.keys.defaults, name, $0) } ?? Command("HDEL", queue.keys.defaults, name))
    }

    mutating func limitFleet() async throws {
        switch Int.random(in: 0..<5, using: &random) {
        case 0: try await queue.set(.rate, to: nil)
        case 1: try await queue.set(.starts, to: nil)
        case 2: try await queue.set(.starts, to: ["1", "2/s", "150/min", "5/s"].randomElement(using: &random)!)
        default: try await queue.set(.rate, to: String(Int.random(in: 1000...1_000_000, using: &random)))
        }
    }

    mutating func limitHost() async throws {
        let values = [
            #"{"starts":1}"#, #"{"starts":"2/s","connections":2}"#, #"{"rate":50000}"#,
            #"{"rate":90000,"starts":"3/s"}"#,
            #"{"rate":-1,"starts":"x"}"#,
        ]
        try await queue.setLimit(
            of: random.chance(50) ? "h0" : "h1", to: values.randomElement(using: &random)!)
    }

    mutating func limitGroup() async throws {
        let values = [
            #"{"running":0}"#, #"{"running":1}"#, #"{"running":2,"starts":"3/s"}"#, #"{"starts":"2/s"}"#,
            #"{"rate":70000}"#, #"{"running":"x"}"#, nil,
        ]
        try await queue.setLimit(of: "group:g0", to: values.randomElement(using: &random)!)
        record("limits of a group")
    }

    mutating func liftLimits() async throws {
        try await queue.set(.rate, to: nil)
        try await queue.set(.starts, to: nil)
        try await readLimits()
    }

    /// Records the limits and defaults that are set now. `afterLoss`: Redis may have lost settings, and what it had
    /// counted under them.
    mutating func readLimits(afterLoss: Bool = false) async throws {
        let found = try await queue.configuration()
        // A value that is not JSON is not a default.
        limits.defaults = found.defaults.filter { (try? JSON($0.value)) != nil }
        limits.defaults["base"] = nil
        for name in FleetLimits.names {
            let own = found.limits[name].flatMap { try? JSON($0) }
            let isQueue = name == FleetLimits.queueWide
            limits.running[name] = own?["running"]?.integer.map { Int($0) }
            let starts = isQueue ? found.settings["starts"] : own?["starts"]?.string ?? own?["starts"].map { $0.text }
            let rate = isQueue ? found.settings["rate"] : own?["rate"].map { $0.text }
            var areLeasesLost = false
            if afterLoss {
                let keys = [
                    queue.keys[.starts], isQueue ? queue.keys[.rateLeases] : queue.keys[.hostRateLeases] + name,
                ]
                let there = try await redis.pipeline(keys.map { .command(Command("EXISTS", $0)) })
                // Redis has forgotten everything that began under this limit.
                if there[0].int == 0 { limits.starts[name] = nil }
                if there[1].int == 0 { (limits.rates[name], areLeasesLost) = (nil, true) }
            }
            limits.recordStarts(starts.flatMap(Self.perSecond), as: name, at: ledger.now)
            FleetLimits.record(
                rate.flatMap(Double.init).flatMap { $0 > 0 ? $0 : nil }, as: name, in: &limits.rates, at: ledger.now)
            // A lease that was lost lasts on, and one that is granted beside it lasts until its worker asks again.
            if areLeasesLost { limits.rates[name]?.since += Int64(queue.policy.lease.milliseconds) }
        }
    }

    private static func perSecond(_ text: String) -> Double? {
        let parts = text.split(separator: "/")
        return Double(parts[0]).map { parts.last == "min" ? $0 / 60 : $0 }
    }

    // MARK: Checks

    /// Checks that claimed jobs begin no more often than allowed, and have the queue's defaults.
    mutating func checkStart(of claims: [Claim]) {
        for claim in claims {
            let spoken = [claim.renewal, claim.spec].lazy.compactMap { $0.flatMap { try? JSON($0) }?["url"]?.string }
            guard let url = spoken.first else { continue }
            let host = url.contains("//h0/") ? "h0" : "h1"
            if let wrong = limits.begin(
                on: [host] + (Self.group(of: claim).map { ["group:" + $0] } ?? []), at: ledger.now)
            {
                ledger.recordViolation("\(claim.run.id): \(wrong)")
            }
            let reported = Dictionary(claim.defaults.map { ($0.name, $0.text) }) { $1 }
            if reported != limits.defaults { ledger.recordViolation("\(claim.run.id) has the defaults \(reported)") }
            if !limits.starts.isEmpty { record("began under a limit") }
        }
    }

    private static func group(of claim: Claim) -> String? {
        (try? JSON(claim.spec))?["group"]?.string
    }

    /// Checks that a claimed job has not exceeded the limit of its group.
    mutating func checkGroups(of claims: [Claim]) async throws {
        for group in Set(claims.compactMap(Self.group)) {
            record("took turns")
            guard let limit = limits.running["group:" + group] else { continue }
            let running = try await redis.send(Command("SCARD", queue.keys[.busyGroup] + group)).int ?? 0
            if running > limit { ledger.recordViolation("\(group): \(running) jobs run, and \(limit) may") }
        }
    }

    mutating func pace() async throws {
        guard let index = pick() else { return }
        if try await queue.pace(workers[index].identity) != nil { record("paced") }
        try await observe(.pace)
    }

    /// A worker asks for rate leases. The reply may be lost.
    mutating func leaseRates() async throws {
        guard let index = pick() else { return }
        workers[index].requestNumber += 1
        var requests: [RateLeaseRequest] = []
        for name in FleetLimits.names where random.chance(60) {
            var lease = workers[index].rateLeases[name] ?? FleetLimits.Lease()
            if lease.end <= ledger.now { lease.inUse = 0 }
            var demand =
                random.chance(60)
                ? RateLeaseRequest.Demand.unlimited : .bytesPerSecond(.random(in: 0...90_000, using: &random))
            if name != FleetLimits.queueWide, random.chance(10) { (demand, lease.inUse) = (.nothing, 0) }
            workers[index].rateLeases[name] = lease
            requests.append(RateLeaseRequest(name, inUse: lease.inUse, demand: demand))
        }
        let worker = workers[index]
        let leases = try await queue.leaseRates(worker.identity, number: worker.requestNumber, requests)
        let isReceived = random.chance(90)
        for request in requests where isReceived && request.demand != .nothing {
            guard let lease = leases[request.name] else {
                // The limit was removed.
                workers[index].rateLeases[request.name] = nil
                continue
            }
            workers[index].rateLeases[request.name] = FleetLimits.Lease(
                inUse: lease.bytesPerSecond, end: ledger.now + Int64(queue.policy.lease.milliseconds))
            record("rate leases")
        }
        checkRateLeases()
    }

    /// Checks that the sum of the rate leases is at most the limit, if the limit is older than a lease.
    private mutating func checkRateLeases() {
        for (name, limit) in limits.rates where limit.since < ledger.now - Int64(queue.policy.lease.milliseconds) {
            let sum = workers.compactMap { $0.rateLeases[name] }.reduce(0) { $0 + ($1.end > ledger.now ? $1.inUse : 0) }
            if Double(sum) > limit.value {
                ledger.recordViolation("\(name): \(sum) bytes per second are lent of \(limit.value)")
            }
            record("sums of rate leases")
        }
    }
}
