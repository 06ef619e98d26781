import HaulHTTP

/// Counts what a run has received over all its connections, and how fast.
struct ReceivedBytes {
    /// The active transfers of the present generation.
    private(set) var transfers: [Int: Transfer] = [:]
    /// Bytes of the present generation from transfers that have ended.
    private var ended: Int64 = 0
    /// Bytes of earlier generations.
    private var earlier: Int64 = 0
    /// The number of responses that bytes of the present generation came from.
    private(set) var responses = 0
    private var meter = SpeedMeter()

    /// Bytes of the present generation.
    var ofGeneration: Int64 { transfers.values.reduce(ended) { $0 + $1.progress.received } }

    /// Bytes of all generations.
    var inAll: Int64 { earlier + ofGeneration }

    /// Seconds since the run began.
    var seconds: Double { meter.seconds }

    mutating func begin(_ id: Int, _ transfer: Transfer) {
        transfers[id] = transfer
        responses += 1
    }

    mutating func end(_ id: Int, _ transfer: Transfer) {
        transfers[id] = nil
        ended += transfer.progress.received
    }

    /// The transfer continues under another id, and is counted there.
    mutating func handOver(_ id: Int) {
        transfers[id] = nil
        responses -= 1
    }

    /// From now on bytes belong to a new generation.
    mutating func beginGeneration() {
        earlier += ended
        (ended, responses) = (0, 0)
    }

    /// Bytes per second, over the last seconds and on average.
    mutating func speed() -> (now: Int64, average: Int64) {
        meter.sample(inAll)
        return (meter.speed, meter.average)
    }
}
