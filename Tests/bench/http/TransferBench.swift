import Glibc
import HaulContract
import HaulFileStore
import HaulHTTP

/// One transfer, or many at once, through `TransferEngine` and `DiskWriter` only: without Redis, resume points and
/// verification.
///
///     http-bench get URL FILE [disk|process] [sha256]      prints seconds of wall clock and CPU
///     http-bench many URL DIRECTORY COUNT                  prints CPU and peak resident memory while they run
@main
struct TransferBench {
    static func main() async throws {
        let arguments = CommandLine.arguments
        guard arguments.count >= 4 else {
            print("usage: http-bench get URL FILE [disk|process] [sha256] | many URL DIRECTORY COUNT")
            exit(2)
        }
        switch arguments[1] {
        case "get":
            try await get(
                arguments[2], into: arguments[3], durability: arguments.contains("process") ? .process : .disk,
                digest: arguments.contains("sha256") ? .sha256 : nil)
        default: try await many(arguments[2], in: arguments[3], count: Int(arguments[4])!)
        }
    }

    static func get(_ url: String, into path: String, durability: Durability, digest: Job.Checksum.Algorithm?)
        async throws
    {
        let start = ContinuousClock.now
        let diskWriter = DiskWriter()
        let engine = engine()
        let file = OutputFile(
            descriptor: open(path, O_RDWR | O_CREAT | O_TRUNC, 0o644), diskWriter: diskWriter, durability: durability,
            digest: digest)
        let transfer = try await engine.start(HTTPRequest(url: url))
        if case .bytes(let size) = transfer.head.length { try file.reserve(size) }
        let checkpoints = Task {
            while !Task.isCancelled {
                try await Task.sleep(for: .seconds(1))
                try await file.checkpoint()
            }
        }
        let end = try await transfer.receive(into: file, at: 0)
        checkpoints.cancel()
        try await file.checkpoint()
        if let digest {
            await file.waitForDigest()
            print(try file.digest(digest, size: end.bytes))
        }
        try file.truncate(to: end.bytes)
        try file.sync()
        print(
            "\(end.bytes) bytes, \(seconds(ContinuousClock.now - start)) s, CPU \(cpu()) s, \(peakResidentMemory()) MiB"
        )
    }

    static func many(_ url: String, in directory: String, count: Int) async throws {
        let diskWriter = DiskWriter()
        let engine = engine()
        try await withThrowingTaskGroup(of: Int64.self) { group in
            for index in 0..<count {
                group.addTask {
                    let file = OutputFile(
                        descriptor: open("\(directory)/\(index)", O_RDWR | O_CREAT | O_TRUNC, 0o644),
                        diskWriter: diskWriter)
                    let transfer = try await engine.start(HTTPRequest(url: url))
                    if case .bytes(let size) = transfer.head.length { try file.reserve(size) }
                    let end = try await transfer.receive(into: file, at: 0)
                    return end.bytes
                }
            }
            group.addTask {
                var last = cpu()
                while true {
                    do { try await Task.sleep(for: .seconds(5)) } catch { return 0 }
                    let now = cpu()
                    print(
                        "\(await engine.count) running, \((now - last) / 5 * 100) % of a core, \(peakResidentMemory()) MiB"
                    )
                    fflush(nil)
                    last = now
                }
            }
            for _ in 0..<count { _ = try await group.next() }
            group.cancelAll()
        }
    }

    static func engine() -> TransferEngine {
        var configuration = TransferEngine.Configuration()
        configuration.policy = .unrestricted
        return TransferEngine(configuration: configuration)
    }

    static func seconds(_ duration: Duration) -> Double {
        Double(duration.components.seconds) + Double(duration.components.attoseconds) / 1e18
    }

    /// The user and system CPU seconds of this process.
    static func cpu() -> Double {
        var usage = rusage()
        getrusage(Int32(RUSAGE_SELF.rawValue), &usage)
        let time = { (time: timeval) in Double(time.tv_sec) + Double(time.tv_usec) / 1e6 }
        return time(usage.ru_utime) + time(usage.ru_stime)
    }

    /// The largest resident memory of this process so far, in MiB.
    static func peakResidentMemory() -> Int {
        var usage = rusage()
        getrusage(Int32(RUSAGE_SELF.rawValue), &usage)
        return usage.ru_maxrss / 1024
    }
}
