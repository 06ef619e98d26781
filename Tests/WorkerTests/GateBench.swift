import Foundation
import Glibc
import HaulBus
import HaulContract
import HaulObjectStore
import HaulRedis
import HaulStorage
import HaulTestSupport
import Testing

@testable import HaulWorker

/// A fleet, a directory for what its gates write, and an origin with a file for each size: `/10000`.
struct GateBench {
    static let sizes: [Int64] = [10_000, 3_000_000]

    let fleet: Fleet
    let notes = TemporaryDirectory()
    let origin: OriginServer

    init() async throws {
        fleet = try await Fleet()
        origin = try OriginServer { request in
            let name = request.path.split(separator: "?")[0].split(separator: "/").last ?? ""
            return .file(Self.file(Int64(name) ?? 1000), to: request)
        }
    }

    func push(_ id: String, _ size: Int64, _ more: String = "") async throws {
        try await fleet.push(
            #"{"url":"\#(origin.url("/\(id)/\(size)"))","id":"\#(id)","path":"\#(id)","connections":1\#(more)}"#)
    }

    func download(_ id: String, _ size: Int64, _ more: String = "") async throws -> JobRecord {
        try await push(id, size, more)
        return try await fleet.end(id)
    }

    /// How often the origin was asked for the bytes of the job's file, and not only whether it has changed.
    func requests(_ id: String) -> Int {
        origin.requests.count { $0.path.hasPrefix("/\(id)/") && $0.headers["if-none-match"] == nil }
    }

    /// A gate that writes a line to `runs`, and then runs the shell's `command`.
    func gate(_ command: String) -> (inout WorkerConfiguration) -> Void {
        let line = #"echo "$GATE_ID" >>\#(notes.file("runs")); "#
        return { configuration in
            configuration.gate = line + command
            configuration.gateRetryAfter = .milliseconds(200)
        }
    }

    /// The ids of the jobs whose files a gate has seen, in their order.
    var runs: [String] {
        String(decoding: notes.contents("runs") ?? [], as: UTF8.self).split(separator: "\n").map(String.init)
    }

    func text(_ name: String) -> String { String(decoding: notes.contents(name) ?? [], as: UTF8.self) }

    func want(_ id: String, _ operation: String) async throws {
        try await fleet.queue.redis.send(Command("HSET", fleet.queue.keys.want, id, operation))
    }

    /// Waits until all bytes of the job's file have arrived, as its progress says.
    func waitForFile(_ id: String, _ size: Int64) async throws {
        try await eventually("the file of \(id)") { try await fleet.queue.job(id)?["received"] == "\(size)" }
    }

    /// Waits until the queue has had so many ticks.
    func waitForTicks(_ count: Int) async throws {
        var ticks: Set<String> = []
        try await eventually("\(count) ticks", every: .milliseconds(50)) {
            let tick = try await fleet.queue.redis.send(Command("GET", "haul:{default}:tick")).string
            ticks.insert(tick ?? "")
            return ticks.count > count
        }
    }

    /// Whether the process with this number, which a gate wrote to a file, exists.
    func isAlive(_ name: String) -> Bool {
        guard let number = pid_t(text(name).trimmingCharacters(in: .whitespacesAndNewlines)) else { return false }
        // A process that has ended and was not waited for counts as gone.
        let status = FileManager.default.contents(atPath: "/proc/\(number)/stat") ?? Data()
        let words = String(decoding: status, as: UTF8.self)
        return !words.isEmpty && !words.contains(") Z ")
    }

    static func file(_ size: Int64) -> FileBytes { FileBytes(seed: UInt64(size), count: size) }
}
