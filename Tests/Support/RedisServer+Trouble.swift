import Foundation

/// Ways to make a server refuse commands.
extension RedisServer {
    /// Settings with which loading a key takes a while. The server answers LOADING meanwhile.
    package static let slowLoading = ["--key-load-delay", "4000", "--loading-process-events-interval-bytes", "1024"]

    /// Settings of a cluster of one node that serves no slot.
    package static var clusterOfOne: [String] {
        [
            "--cluster-enabled", "yes", "--bind", "127.0.0.1", "--port", "\(FreePort.next())", "--cluster-port",
            "\(FreePort.next())",
        ]
    }

    /// Makes a cluster of one node serve all slots, and waits until it does.
    package func serveAllSlots() async throws {
        try await cli("CLUSTER", "ADDSLOTSRANGE", "0", "16383")
        try await eventually("the cluster to be up") { try await cli("CLUSTER", "INFO").contains("cluster_state:ok") }
    }

    /// Restarts the server so that it loads for a minute, or until `endLoading`. Its settings must be `slowLoading`.
    package func beginLoading() async throws {
        try await cli("EVAL", "for n = 1, 15000 do redis.call('SET', 'filler' .. n, n) end", "0")
        try await cli("SAVE")
        try await restart()
    }

    package func endLoading() async throws {
        try await cli("CONFIG", "SET", "key-load-delay", "0")
        try await eventually("Redis to have loaded") { try await cli("INFO", "persistence").contains("\nloading:0") }
    }

    /// Makes a save fail, so that Redis refuses writes. A directory replaces the file `name`.
    package func breakSaving(_ name: String) async throws {
        try FileManager.default.createDirectory(atPath: directory.file("\(name)/x"), withIntermediateDirectories: true)
        try await save("err")
    }

    package func mendSaving(_ name: String) async throws {
        try FileManager.default.removeItem(atPath: directory.file(name))
        try await save("ok")
    }

    private func save(_ expected: String) async throws {
        try await cli("BGSAVE")
        try await eventually("saving to end with \(expected)") {
            let info = try await cli("INFO", "persistence")
            return info.contains("rdb_bgsave_in_progress:0") && info.contains("rdb_last_bgsave_status:\(expected)")
        }
    }

    /// The number of error replies whose first word is `word`.
    package func errors(_ word: String) async throws -> Int {
        let line = try await cli("INFO", "errorstats").split(whereSeparator: \.isNewline).first {
            $0.hasPrefix("errorstat_\(word):")
        }
        return line.flatMap { Int($0.split(separator: "=").last ?? "") } ?? 0
    }
}
