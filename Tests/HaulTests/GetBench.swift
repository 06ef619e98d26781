import Foundation
import Glibc
import HaulContract
import HaulTestSupport

/// Runs `haul get` as a black box, with a directory for files and a home of its own.
struct GetBench {
    let files = TemporaryDirectory()
    let home = TemporaryDirectory()

    /// Starts the command in the directory of files.
    func start(_ arguments: [String], input: String = "", environment: [String: String] = [:]) throws -> ChildProcess {
        // `haul get` needs no redis-server, and this PATH has none.
        let clean = ["XDG_STATE_HOME": home.path, "PATH": "/nowhere", "no_proxy": "", "HOME": home.path]
        return try ChildProcess(
            "/bin/sh", ["-c", "cd \"$1\" && shift && exec \"$@\"", "sh", files.path, haul, "get"] + arguments,
            environment: clean.merging(environment) { $1 }, input: input)
    }

    func get(
        _ arguments: String..., input: String = "", environment: [String: String] = [:]
    ) async throws -> (status: Int32, out: String, err: String) {
        let process = try start(arguments, input: input, environment: environment)
        let status = try await process.wait()
        return (status, process.standardOutput, process.standardError)
    }

    private var haul: String { ChildProcess.path(of: "haul") ?? "haul" }

    /// All names in the directory, including the store's id.
    var names: [String] {
        ((try? FileManager.default.contentsOfDirectory(atPath: files.path)) ?? []).sorted()
    }

    func write(_ name: String, _ text: String) { write(name, Array(text.utf8)) }

    func write(_ name: String, _ bytes: [UInt8]) { write(Data(bytes), to: files.file(name)) }

    private func write(_ bytes: Data, to path: String) {
        _ = FileManager.default.createFile(atPath: path, contents: bytes)
    }

    /// The download log.
    var log: Data {
        get { FileManager.default.contents(atPath: home.file("haul/get/journal")) ?? Data() }
        nonmutating set { write(newValue, to: home.file("haul/get/journal")) }
    }

    /// The number of bytes that the records name.
    var recorded: Int64 {
        let text = log
        // The last record of a download counts.
        let last = Dictionary(
            text.split(separator: 10).compactMap { try? JSON(Array($0)) }.map { ($0["key"]?.string ?? "", $0) },
            uniquingKeysWith: { $1 })
        return last.values.reduce(0) { sum, record in
            (record["offsets"]?.members ?? []).reduce(sum) {
                $0 + (Int64($1.value.string ?? "") ?? 0) - (Int64($1.name) ?? 0)
            }
        }
    }

    /// Parses the events of `--json`.
    static func events(_ output: String) throws -> [JSON] {
        try output.split(separator: "\n").map { try JSON(String($0)) }
    }
}
