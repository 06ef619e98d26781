import Foundation
import HaulRedis
import HaulTestSupport

/// The users of deploy/redis/users.acl on a real server.
final class Roles: Sendable {
    static let repository = ShippedRoles.repository
    static let prefix = "haul:{default}:"

    let server: RedisServer
    /// Where sentinels reach the server.
    let port = FreePort.next()
    let admin: Redis
    let directory = TemporaryDirectory()
    /// The rules of each role as in the file, without its password.
    let rules: [String: String]

    /// - Parameters:
    ///   - settings: Further settings of Redis.
    ///   - change: Changes the text of the file.
    init(
        _ settings: [String] = [], kind: RedisServer.Kind = .standard, change: (String) -> String = { $0 }
    ) async throws {
        let text = change(try ShippedRoles.text())
        var rules: [String: String] = [:]
        for line in text.split(separator: "\n") {
            let words = line.split(separator: " ", maxSplits: 4)
            if words.count == 5, words[2] == "on" { rules[String(words[1])] = String(words[4]) }
        }
        self.rules = rules
        let users = directory.file("users.acl")
        try text.write(toFile: users, atomically: true, encoding: .utf8)
        let own = ["--aclfile", users, "--port", "\(port)", "--bind", "127.0.0.1"]
        server = try await RedisServer(settings + own, kind: kind)
        admin = Redis(try RedisURL(Self.url("admin", of: server)), name: "admin")
    }

    /// Uses database 1, so that every client must send SELECT.
    static func url(_ role: String, of server: RedisServer) -> String {
        "\(server.url)?db=1&user=\(role)&password=\(ShippedRoles.password(of: role))"
    }

    func start(_ role: String, _ arguments: [String]) throws -> ChildProcess {
        try ChildProcess("haul", arguments, environment: ["HAUL_REDIS": Self.url(role, of: server)])
    }

    /// Runs a verb of the command in a role.
    func haul(_ role: String, _ words: String) async throws -> (status: Int32, out: String, err: String) {
        let process = try start(role, words.split(separator: " ").map(String.init))
        let status = try await process.wait(within: .seconds(30))
        return (status, process.standardOutput, process.standardError)
    }

    /// The output of redis-cli in a role.
    func cli(_ role: String, _ arguments: [String]) async throws -> String {
        let cli = try ChildProcess(
            "redis-cli",
            [
                "-s", server.socket, "-n", "1", "--no-auth-warning", "--user", role, "--pass",
                ShippedRoles.password(of: role),
            ] + arguments)
        _ = try await cli.wait()
        return cli.standardOutput.trimmingCharacters(in: .whitespacesAndNewlines)
    }

    /// Every command that the server executes while `body` runs, including those within functions.
    func commands(during body: () async throws -> Void) async throws -> Set<[String]> {
        let monitor = try ChildProcess(
            "redis-cli",
            ["-s", server.socket, "--no-auth-warning", "--user", "admin", "--pass", "ADMIN-PASSWORD", "MONITOR"])
        defer { monitor.kill(SIGKILL) }
        try await eventually("the monitor to listen") { monitor.standardOutput.hasPrefix("OK") }
        try await admin.send(Command("CONFIG", "RESETSTAT"))
        try await body()
        try await admin.send(Command("ECHO", "the last of them"))
        try await eventually("the monitor to have seen all") { monitor.standardOutput.contains("the last of them") }
        let lines = monitor.standardOutput.split(separator: "\n")
        var commands = Set(lines.compactMap(Self.command).filter { $0.first != "echo" })
        // MONITOR does not show this one.
        let stats = try await admin.send(Command("INFO", "commandstats")).infoFields
        if stats["cmdstat_acl|dryrun"] != nil { commands.insert(["acl", "dryrun", "default", "ping"]) }
        return commands
    }

    /// Parses a line of MONITOR: `1700000000.1 [1 lua] "HSET" "key" "value"`, or with a socket instead of lua.
    private static func command(_ line: Substring) -> [String]? {
        guard let start = line.firstRange(of: "] \"") else { return nil }
        var words: [String] = []
        var word: [UInt8]?
        var bytes = Array(line[start.lowerBound...].utf8.dropFirst(2))[...]
        while let byte = bytes.popFirst() {
            switch (word, byte) {
            case (nil, UInt8(ascii: "\"")): word = []
            case (let text?, UInt8(ascii: "\"")):
                words.append(String(decoding: text, as: UTF8.self))
                word = nil
            case (.some, UInt8(ascii: "\\")):
                // Only names matter here, and no name contains an escape.
                word?.append(bytes.popFirst() ?? byte)
            case (.some, _): word?.append(byte)
            default: break
            }
        }
        return words.isEmpty ? nil : [words[0].lowercased()] + words.dropFirst()
    }

    /// The rights of a role, each with the role's other rules.
    func rights(of role: String) -> [(right: String, others: String)] {
        let words = rules[role]!.split(separator: " ").map(String.init)
        return words.indices.compactMap { index in
            let bare = words[index].trimmingCharacters(in: ["(", ")"])
            guard ["+", "~", "%", "&"].contains(bare.prefix(1)) else { return nil }
            var others = words
            others[index] = (words[index].hasPrefix("(") ? "(" : "") + (words[index].hasSuffix(")") ? ")" : "")
            let text = others.filter { !$0.isEmpty }.joined(separator: " ")
            return (bare, text.replacingOccurrences(of: "( ", with: "(").replacingOccurrences(of: " )", with: ")"))
        }
    }

    /// Whether a user with these rules may run all of `commands`.
    func permits(_ rules: String, _ commands: Set<[String]>) async throws -> Bool {
        try await refused(rules, commands).isEmpty
    }

    func refused(_ rules: String, _ commands: Set<[String]>) async throws -> [[String]] {
        let words = Self.arguments(of: rules)
        try await admin.send(Command(arguments: ["ACL", "SETUSER", "tried", "reset", "on", "nopass"] + words))
        let all = Array(commands)
        let replies = try await admin.pipeline(
            all.map { .command(Command(arguments: ["ACL", "DRYRUN", "tried"] + $0)) }, timeout: .seconds(30))
        return zip(all, replies).filter { $1 != .status("OK") }.map(\.0)
    }

    /// A selector, in parentheses, is one argument of ACL SETUSER.
    private static func arguments(of rules: String) -> [String] {
        var result: [String] = []
        var isOpen = false
        for word in rules.split(separator: " ") {
            if isOpen { result[result.count - 1] += " \(word)" } else { result.append(String(word)) }
            if word.hasPrefix("(") { isOpen = true }
            if word.hasSuffix(")") { isOpen = false }
        }
        return result
    }
}
