import Foundation
import HaulClient

struct Order: Codable {
    let id: String
    let url: String
    let at: Int64
    let urgent: Bool
}

@main
struct Producer {
    static func main() async throws {
        let arguments = CommandLine.arguments
        guard arguments.count == 3, ["run", "follow", "cancel"].contains(arguments[1]) else {
            print("usage: producer run FILE | follow ID | cancel ID")
            exit(2)
        }
        let url = ProcessInfo.processInfo.environment["HAUL_REDIS"] ?? "redis://127.0.0.1:6379"
        let queue = try HaulQueue(redis: url)
        switch arguments[1] {
        case "run": try await run(arguments[2], on: queue)
        case "follow": try await follow(arguments[2], on: queue)
        default: try await queue.cancel([arguments[2]])
        }
        await queue.close()
    }

    /// Prints a line at once, even if the output is not a terminal.
    static func say(_ line: String) { FileHandle.standardOutput.write(Data("\(line)\n".utf8)) }

    static func run(_ file: String, on queue: HaulQueue) async throws {
        let orders = try JSONDecoder().decode([Order].self, from: Data(contentsOf: URL(fileURLWithPath: file)))
        if try await queue.stats().workers == 0 { say("no worker serves the queue; waiting") }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for order in orders {
                group.addTask {
                    do {
                        // The hash is the truth, also after a restart of this program.
                        let result = try await push(order, on: queue).result()
                        say("\(order.id): \(decide(result))")
                    } catch let error as HaulError where error.code == .invalidJob || error.code == .rejected {
                        say("\(order.id): tell a developer (\(error.message))")
                    }
                }
            }
            try await group.waitForAll()
        }
    }

    /// Repeating it is safe: the id and `at` are the same.
    static func push(_ order: Order, on queue: HaulQueue) async throws(HaulError) -> JobHandle {
        var job = Job(order.url, id: order.id)
        job.at = order.at
        job.path = "orders/"
        return try await queue.push(job, to: order.urgent ? .front : .end)
    }

    static func decide(_ result: JobResult) -> String {
        guard result.state == .failed, let error = result.error else {
            return result.state == .completed ? "use \(result.file ?? "")" : "cancelled"
        }
        let why = "(\(error): \(result.message ?? ""))"
        switch error {
        case .http(401), .http(403): return "sign a new URL \(why)"
        case .http(404), .http(410): return "gone \(why)"
        case .checksumMismatch, .sizeMismatch, .wrongContentType, .tooLarge: return "not what was ordered \(why)"
        case .deadline: return "too late"
        case .crashLoop, .localLimit, .io, .proxy: return "tell the operator \(why)"
        default: return result.isRetryable ? "push again later \(why)" : "tell a developer \(why)"
        }
    }

    static func follow(_ id: String, on queue: HaulQueue) async throws {
        for try await update in queue.job(id).events {
            switch update {
            case .event(let event): say("\(id) \(event.kind) \(update.received ?? 0) \(update.total ?? 0)")
            case .status(let status): say("\(id) is \(status.state) \(status.received) \(status.total ?? 0)")
            }
        }
    }
}
