import HaulBus
import HaulContract

// What viewers and lists see of a job: JobRecord.json writes it.

extension JobRecord {
    /// The fields of a job's hash that a row of a list needs.
    static let rowFields = Queue.summaryFields + ["method", "status", "retryable"]
    private static let maxRowIntervals = 16

    /// The intervals that a bar in a row can show: the smallest gaps are closed until `maxRowIntervals` are left.
    static func merged(_ offsets: ByteIntervals) -> ByteIntervals {
        let all = Array(offsets.intervals)
        guard all.count > maxRowIntervals else { return offsets }
        let gaps = (1..<all.count).sorted {
            all[$0].lowerBound - all[$0 - 1].upperBound > all[$1].lowerBound - all[$1 - 1].upperBound
        }
        var merged: [Range<Int64>] = []
        let kept = Set(gaps.prefix(maxRowIntervals - 1))
        for (index, interval) in all.enumerated() {
            if index == 0 || kept.contains(index) {
                merged.append(interval)
            } else {
                merged[merged.count - 1] = merged[merged.count - 1].lowerBound..<interval.upperBound
            }
        }
        return ByteIntervals(merged)
    }

    /// A pushed job without a hash, because no worker has claimed it yet. `job` is its element in the queue, if known.
    init(unclaimed id: String, _ job: ListedJob? = nil) {
        self.init(job: job ?? ListedJob(id: id), state: .queued, fields: [:])
    }
}

extension Event {
    /// An event for viewers, without the server's response.
    static func withoutResponse(_ event: JSON) -> String {
        (event.members ?? []).filter { !JobRecord.responseMembers.contains($0.name) }
            .reduce(into: JSONObject()) { $0.set($1.name, json: $1.raw) }.text
    }
}
