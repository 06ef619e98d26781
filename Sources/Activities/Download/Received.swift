import HaulHTTP

/// What a run has received, over all of its connections, and how fast.
struct Received {
    /// Those that bring bytes of the present generation now.
    private(set) var transfers: [Int: Transfer] = [:]
    /// Bytes of the generation by transfers that have ended.
    private var ended: Int64 = 0
    /// Bytes of earlier generations.
    private var earlier: Int64 = 0
    /// Responses that bytes of the generation came from.
    private(set) var responses = 0
    private var meter = SpeedMeter()

    /// Bytes of the present generation.
    var ofGeneration: Int64 { transfers.values.reduce(ended) { $0 + $1.progress.received } }

    /// Bytes of all generations.
    var inAll: Int64 { earlier + ofGeneration }

    /// Since the run began.
    var seconds: Double { meter.seconds }

    mutating func begin(_ id: Int, _ transfer: Transfer) {
        transfers[id] = transfer
        responses += 1
    }

    mutating func end(_ id: Int, _ transfer: Transfer) {
        transfers[id] = nil
        ended += transfer.progress.received
    }

    /// The transfer goes on under another number: it counts from there.
    mutating func handOver(_ id: Int) {
        transfers[id] = nil
        responses -= 1
    }

    /// What comes from now on is of another generation.
    mutating func beginGeneration() {
        earlier += ended
        (ended, responses) = (0, 0)
    }

    /// Bytes per second over the last seconds and on average.
    mutating func speed() -> (now: Int64, average: Int64) {
        meter.sample(inAll)
        return (meter.speed, meter.average)
    }
}
