import HaulContract
package import HaulRedis

/// Where an element waits for its turn.
package enum WaitingLocation: Sendable, Hashable {
    /// In the list `jobs`.
    case queue
    /// A worker holds the element, and has not claimed its job yet.
    case held(worker: String)
    /// The limit of the element's host is reached.
    case host(String)
    /// The element waits for the turn of its group. The name is empty for jobs without a group, and `*` for elements
    /// that were deferred for a host and are next.
    case group(String)
    /// The worker that claimed the element does not do its kind.
    case kind(String)
}

/// All lists in which elements wait, at one point in time: what workers hold, the queue, what waits for the turn of its
/// group, then what waits for hosts and for workers of a kind. Every count, list, search and check of queued jobs reads
/// these lists, so that nothing that is counted is missing elsewhere.
package struct WaitingLists: Sendable {
    package struct List: Sendable {
        package let location: WaitingLocation
        let key: String
        /// The number of its partition.
        fileprivate(set) var partition = 0
        package var length = 0
        /// How many elements at the end where pushes arrive are left out.
        var skipped = 0
        /// Whether what is given of the list ends where it is claimed first.
        var reachesEnd = true
        /// What the elements wait for, for people; nil if they only wait for their turn.
        package fileprivate(set) var reason: String?
    }

    package var lists: [List] = []
    /// The URL against which the queue resolves a relative `url`, if it has one.
    fileprivate(set) var base: String?

    /// From which end of each list positions count.
    enum Order { case claims, pushes }
    /// By default from the end that is claimed first. Each claim moves all elements one position towards that end.
    var order = Order.claims

    package init() {}

    /// Adds the lists of another partition of the same queue.
    mutating func append(_ others: WaitingLists, ofPartition number: Int) {
        base = base ?? others.base
        lists += others.lists.map { list in
            var list = list
            list.partition = number
            return list
        }
    }

    /// How many elements wait in all.
    package var count: Int { lists.reduce(0) { $0 + $1.length } }

    /// The lists of elements that wait for a host, for a worker of a kind or for a limit of their group.
    package var deferred: WaitingLists {
        var some = self
        some.lists = lists.filter {
            switch $0.location {
            case .queue, .held: false
            case .group: $0.reason != nil
            case .host, .kind: true
            }
        }
        return some
    }

    /// How many elements wait, and for what, by host.
    package var hosts: [(host: String, count: Int, reason: String)] {
        lists.compactMap { list in
            guard case .host(let host) = list.location, list.length > 0 else { return nil }
            return (host, list.length, list.reason ?? "")
        }.joined()
    }

    /// The groups of which elements wait.
    package var groups: Set<String> {
        Set(
            lists.compactMap { list in
                guard case .group(let group) = list.location, list.length > 0 else { return nil }
                return group
            })
    }

    /// How many elements wait for a limit of their group, and for which, by group.
    package var limitedGroups: [(group: String, count: Int, reason: String)] {
        lists.compactMap { list in
            guard case .group(let group) = list.location, list.length > 0 else { return nil }
            return list.reason.map { (group, list.length, $0) }
        }.joined()
    }

    /// How many elements wait for a worker, by the kind of their jobs.
    package var kinds: [String: Int] {
        var kinds: [String: Int] = [:]
        for case let list in lists where list.length > 0 {
            if case .kind(let kind) = list.location { kinds[kind, default: 0] += list.length }
        }
        return kinds
    }

    /// The parts of the lists that hold the elements after the first `start`, at most `limit`. Positions count from the
    /// end that `order` says.
    func parts(from start: Int, limit: Int) -> [(list: List, range: Range<Int>)] {
        var parts: [(list: List, range: Range<Int>)] = []
        var (skipped, left) = (max(0, start), max(0, limit))
        for list in lists where left > 0 {
            let range = min(skipped, list.length)..<min(skipped + left, list.length)
            skipped = max(0, skipped - list.length)
            guard !range.isEmpty else { continue }
            parts.append((list, range))
            left -= range.count
        }
        return parts
    }
}

extension [(String, Int, String)] {
    /// The same name in several partitions, once with the sum.
    fileprivate func joined() -> Self {
        var places: [String: Int] = [:]
        return reduce(into: []) { result, entry in
            if let place = places[entry.0] {
                result[place].1 += entry.1
            } else {
                places[entry.0] = result.count
                result.append(entry)
            }
        }
    }
}

/// An element as it waits.
struct WaitingElement: Sendable {
    let bytes: [UInt8]
    let source: Source

    /// Differs between most elements, and between processes.
    var digest: Int {
        var hasher = Hasher()
        bytes.withUnsafeBytes { hasher.combine(bytes: $0) }
        return hasher.finalize()
    }

    /// What all elements of a list have in common.
    final class Source: Sendable {
        let key: String
        /// What the elements wait for, for people; nil if they only wait for their turn.
        let reason: String?
        /// The URL against which the queue resolves a relative `url`.
        let base: String?

        init(_ list: WaitingLists.List, base: String?) { (key, reason, self.base) = (list.key, list.reason, base) }
    }
}

extension Queue {
    /// The lists in which elements wait. A list that this user may not count, or whose key has another type, is left
    /// out.
    package func waitingLists() async throws(RedisError) -> WaitingLists {
        guard partitions.isEmpty else {
            let all = try await each { queue throws(RedisError) in try await queue.waitingLists() }
            return all.enumerated().reduce(into: WaitingLists()) { $0.append($1.element, ofPartition: $1.offset) }
        }
        let names = try await redis.pipeline([
            .command(Command("ZRANGE", keys.workers, 0, -1)), .command(Command("HLEN", keys.hosts)),
            .command(Command("HGETALL", keys.deferredKinds)), .command(Command("HGET", keys.defaults, "base")),
        ])
        let groups = try await deferredGroups()
        let waitingHosts = try await deferredHosts(recorded: names[1].int ?? 0)
        var found = WaitingLists()
        found.base = names[3].bytes.flatMap { try? JSON($0) }?.string
        for name in names[0].array?.compactMap(\.string) ?? [] {
            found.lists.append(WaitingLists.List(location: .held(worker: name), key: keys.held(name)))
        }
        found.lists.append(WaitingLists.List(location: .queue, key: keys.jobs))
        for (group, isLimited) in groups {
            let reason = isLimited ? "a limit of the group \(group)" : nil
            found.lists.append(
                WaitingLists.List(location: .group(group), key: keys[.deferredGroup] + group, reason: reason))
        }
        for host in waitingHosts {
            found.lists.append(WaitingLists.List(location: .host(host), key: keys[.deferredHost] + host))
        }
        for kind in names[2].dictionary.keys.sorted() {
            let reason = "a worker that does jobs of the kind \(kind)"
            found.lists.append(WaitingLists.List(location: .kind(kind), key: keys.deferredKind(kind), reason: reason))
        }
        for (index, length) in zip(found.lists.indices, try await lengths(of: found)) {
            found.lists[index].length = length
        }
        let reasons = try await reasons(for: waitingHosts)
        for index in found.lists.indices {
            if case .host(let host) = found.lists[index].location { found.lists[index].reason = reasons[host] }
        }
        found.lists.removeAll { $0.length == 0 }
        return found
    }

    /// How many elements the lists have now.
    private func lengths(of lists: WaitingLists) async throws(RedisError) -> [Int] {
        var lengths: [Int] = []
        // Redis serves no other client during a pipeline, and there may be thousands of groups.
        for part in lists.lists.chunks(ofCount: 500) {
            let replies = try await redis.pipeline(part.map { .command(Command("LLEN", $0.key)) })
            lengths += replies.map { $0.int ?? 0 }
        }
        return lengths
    }

    /// What these lists have beyond the parts that are given, at the end that is claimed first.
    func remainder(of lists: WaitingLists) async throws(RedisError) -> WaitingLists {
        var rest = lists
        guard partitions.isEmpty else {
            rest.lists = []
            for (number, partition) in partitions.enumerated() {
                var part = lists
                part.lists = lists.lists.filter { $0.partition == number }
                rest.lists += try await partition.remainder(of: part).lists
            }
            return rest
        }
        for (index, length) in zip(rest.lists.indices, try await lengths(of: lists)) {
            rest.lists[index].skipped += rest.lists[index].length
            rest.lists[index].length = max(0, length - rest.lists[index].skipped)
        }
        rest.lists.removeAll { $0.length == 0 }
        return rest
    }

    /// The hosts with deferred elements.
    ///
    /// - Parameter recorded: How many fields the hash of hosts has.
    private func deferredHosts(recorded: Int) async throws(RedisError) -> [String] {
        var hosts: Set<String> = []
        for start in stride(from: 0, to: Int.max, by: Self.namesOfPage) {
            let range = Command("ZRANGE", keys[.deferredHosts], start, start + Self.namesOfPage - 1)
            let page = try await redis.pipeline([.command(range)])[0].array?.compactMap(\.string) ?? []
            hosts.formUnion(page)
            if page.count < Self.namesOfPage { break }
        }
        guard 1...Self.namesOfPage ~= recorded else { return hosts.sorted() }
        // A worker of an earlier version records hosts in the hash.
        let hash = try await redis.pipeline([.command(Command("HGETALL", keys.hosts))])[0].dictionary
        hosts.formUnion(hash.keys.compactMap { $0.hasPrefix("line ") ? String($0.dropFirst(5)) : nil })
        return hosts.sorted()
    }

    /// How many names one call reads, because Redis serves no other client meanwhile.
    private static let namesOfPage = 10_000

    /// The groups with elements that wait for their turn, the next one first, and whether a limit stops them.
    private func deferredGroups() async throws(RedisError) -> [(group: String, isLimited: Bool)] {
        // Turns change the ranks of groups all the time, so that a second page may leave some out.
        let pageSize = Self.namesOfPage
        var groups: [(group: String, isLimited: Bool)] = []
        var known: Set<String> = []
        for start in stride(from: 0, to: Int.max, by: pageSize) {
            let range = Command("ZRANGE", keys[.deferredGroups], start, start + pageSize - 1, "WITHSCORES")
            let page = (try await redis.pipeline([.command(range)])[0].array ?? []).map { $0.string ?? "" }
            for index in stride(from: 0, to: page.count - 1, by: 2) where known.insert(page[index]).inserted {
                // Lua/limits/groups.lua distinguishes the limits by the score.
                groups.append((page[index], Double(page[index + 1]) ?? 0 >= 1e17))
            }
            if page.count < 2 * pageSize { break }
        }
        return groups
    }

    /// Why elements wait for hosts, for people.
    private func reasons(for hosts: [String]) async throws(RedisError) -> [String: String] {
        var reasons: [String: String] = [:]
        // As `lengths(of:)` does.
        for part in hosts.chunks(ofCount: 500) { reasons.merge(try await pageOfReasons(for: Array(part))) { $1 } }
        return reasons
    }

    private func pageOfReasons(for hosts: [String]) async throws(RedisError) -> [String: String] {
        let replies = try await redis.pipeline(
            [
                .command(Command(arguments: ["HMGET", keys.limits] + hosts)),
                .command(Command("HGET", keys.settings, "host_connections")),
            ] + hosts.map { .command(Command("GET", keys[.hostBackoff] + $0)) })
        let now = try await time()
        // A user that may not read the limits sees only the host.
        let limits = replies[0].array?.map(\.string) ?? hosts.map { _ in nil }
        var reasons: [String: String] = [:]
        for ((host, limit), backoff) in zip(zip(hosts, limits), replies.dropFirst(2)) {
            let limit = limit.flatMap { try? JSON($0) }
            var causes: [String] = []
            if let connections = limit?["connections"]?.integer {
                causes.append("limit connections \(connections)")
            } else if let connections = replies[1].string {
                causes.append("limit host_connections \(connections)")
            }
            if let starts = limit?["starts"]?.string ?? limit?["starts"]?.integer.map(String.init) {
                causes.append("limit starts \(starts)")
            }
            if let until = backoff.string.flatMap({ Int64($0) }), until > now {
                causes = ["backing off after its last response"]
            }
            reasons[host] = "host \(host)" + (causes.isEmpty ? "" : " (\(causes.joined(separator: ", ")))")
        }
        return reasons
    }

    /// The elements after the first `start`, in the order of `lists`.
    func elements(
        in lists: WaitingLists, from start: Int, limit: Int
    ) async throws(RedisError) -> [WaitingElement] {
        let parts = lists.parts(from: start, limit: limit)
        guard partitions.isEmpty else {
            var elements: [WaitingElement] = []
            for (list, range) in parts {
                // The part is the only one of these lists.
                var part = lists
                part.lists = [list]
                elements += try await partitions[list.partition].elements(
                    in: part, from: range.lowerBound, limit: range.count)
            }
            return elements
        }
        let isFromPushes = lists.order == .pushes
        let replies = try await redis.pipeline(
            parts.map { list, range -> Call in
                let first = isFromPushes ? list.skipped + range.lowerBound : -range.upperBound
                return .command(Command("LRANGE", list.key, first, first + range.count - 1))
            })
        var elements: [WaitingElement] = []
        for (part, reply) in zip(parts, replies) {
            let source = WaitingElement.Source(part.list, base: lists.base)
            let found = try reply.get().array ?? []
            elements.reserveCapacity(elements.count + found.count)
            for index in found.indices {
                let value = found[isFromPushes ? index : found.count - 1 - index]
                elements.append(WaitingElement(bytes: value.bytes ?? [], source: source))
            }
        }
        return elements
    }

    /// The next element of each list, at most of 200 lists, with the key of its list.
    package func heads() async throws(RedisError) -> [(key: String, element: [UInt8])] {
        try await heads(of: try await waitingLists())
    }

    /// The next element of each of the first 200 lists, with the key of its list.
    package func heads(of lists: WaitingLists) async throws(RedisError) -> [(key: String, element: [UInt8])] {
        guard partitions.isEmpty else {
            var heads: [(key: String, element: [UInt8])] = []
            for (number, partition) in partitions.enumerated() {
                var part = lists
                part.lists = lists.lists.filter { $0.partition == number }
                if !part.lists.isEmpty { heads += try await partition.heads(of: part) }
            }
            return heads
        }
        let lists = lists.lists.prefix(200)
        let replies = try await redis.pipeline(lists.map { .command(Command("LINDEX", $0.key, -1)) })
        var heads: [(key: String, element: [UInt8])] = []
        for (list, reply) in zip(lists, replies) {
            if let element = try reply.get().bytes { heads.append((list.key, element)) }
        }
        return heads
    }
}
