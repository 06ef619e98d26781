import ArgumentParser
import HaulDirect
import HaulTerminal

/// The options of a call that a worker makes.
struct CallQueueOptions: ParsableArguments {
    @Flag(help: "Send from here, even if HAUL_QUEUE names a queue.") var direct = false
    @Option(name: .long, help: CommonOptions.redisHelp) var redis: String?
    @Option(name: .long, help: "Let a worker of this queue send. [HAUL_QUEUE]", completion: Completer.queues)
    var queue: String?
    @Option(help: "The maximum size of a response, in bytes, at most 1M.") var maxResponse: ByteCount?
    @Option(help: "Seconds for which an earlier response to the same request is used.") var freshFor: Double?
    @Option(help: "The job's id.") var id: String?
    @Option(help: "Also push the final event onto this reply list.") var replyTo: String?
    @Flag(inversion: .prefixedNo, help: "Wait for the response.") var wait = true

    /// One of the options that only a worker's call has.
    var isGiven: Bool {
        redis != nil || queue != nil || maxResponse != nil || freshFor != nil || id != nil || replyTo != nil || !wait
    }

    /// Whether a worker is to send.
    var isNamed: Bool { isGiven || Environment.text("HAUL_QUEUE") != nil }

    /// Refuses options about connections, which are the worker's.
    ///
    /// - Throws: `ExitStatus.usage`; the reason has been printed.
    func check(_ servers: RequestOptions) throws {
        guard let name = servers.connectionOptionNames.first else { return }
        throw ExitStatus.printing(
            .usage,
            "\(name) is about connections from here, and a worker sends this request: leave out the queue, or the option. Nothing was sent."
        )
    }
}
