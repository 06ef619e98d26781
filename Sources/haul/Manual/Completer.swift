import ArgumentParser
import HaulBus
import HaulContract
import HaulRedis
import HaulTerminal

/// Completes words in a shell with ids and names from Redis. Errors give no words: the shell has no place to show them.
enum Completer {
    /// The maximum number of words. More would not help the user.
    private static let maxSuggestions = 200

    /// Ids of jobs in the states that the command applies to.
    static let jobs = CompletionKind.custom { words, _, prefix in
        guard let queue = queue(of: words) else { return [] }
        var ids: [String] = []
        for state in states(of: words) {
            let found = (try? await queue.ids(in: state, limit: 1000)) ?? []
            ids += found.filter { $0.hasPrefix(prefix) }
            if ids.count >= maxSuggestions { break }
        }
        await queue.close()
        return Array(ids.prefix(maxSuggestions))
    }

    /// Names of workers.
    static let workers = CompletionKind.custom { words, _, prefix in
        guard let queue = queue(of: words) else { return [] }
        let names = ((try? await queue.workers()) ?? []).map(\.name)
        await queue.close()
        return Array(names.filter { $0.hasPrefix(prefix) }.prefix(maxSuggestions))
    }

    /// Names of batches.
    static let batches = CompletionKind.custom { words, _, prefix in
        guard let queue = queue(of: words) else { return [] }
        let names = ((try? await queue.batches(limit: 1000)) ?? []).map(\.name)
        await queue.close()
        return Array(names.filter { $0.hasPrefix(prefix) }.prefix(maxSuggestions))
    }

    /// Names of queues, as far as a few pages of keys (SCAN) have them.
    static let queues = CompletionKind.custom { words, _, prefix in
        guard let redis = redis(of: words) else { return [] }
        let names = ((try? await QueueName.all(on: redis, maxPages: 10)) ?? []).map(\.text)
        await redis.close()
        return names.filter { $0.hasPrefix(prefix) }
    }

    private static func states(of words: [String]) -> [JobState] {
        switch words.dropFirst().first {
        case "pause": [.running, .scheduled, .queued]
        case "resume": [.paused]
        case "retry": [.failed]
        case "cancel": [.running, .paused, .scheduled, .queued]
        case "watch": [.running, .scheduled, .paused, .queued]
        default: [.running, .failed, .paused, .scheduled, .completed, .cancelled, .queued]
        }
    }

    private static func queue(of words: [String]) -> Queue? {
        let name = value(of: "--queue", in: words) ?? CommonOptions.queueOfEnvironment ?? "default"
        guard let name = QueueName(name), let redis = redis(of: words) else { return nil }
        return Queue(name, redis: redis)
    }

    /// A client that gives up after 2 s: the user waits for the words.
    static func redis(of words: [String]) -> Redis? {
        let text = value(of: "--redis", in: words) ?? Environment.text("HAUL_REDIS")
        guard let url = try? RedisURL(text ?? "redis://127.0.0.1:6379") else { return nil }
        let redis = Redis(url, name: "haul-completion")
        Task { await redis.end(by: .now + .seconds(2)) }
        return redis
    }

    /// `--queue x` or `--queue=x`.
    private static func value(of option: String, in words: [String]) -> String? {
        for (index, word) in words.enumerated() {
            if word == option, index + 1 < words.count { return words[index + 1] }
            if word.hasPrefix(option + "=") { return String(word.dropFirst(option.count + 1)) }
        }
        return nil
    }
}
