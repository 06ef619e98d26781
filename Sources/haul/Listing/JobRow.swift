import ArgumentParser
import HaulBus
import HaulContract
import HaulTerminal

// How a terminal shows a job.

extension JobRow {
    var percent: String { fraction.map { "\(Int($0 * 100))%" } ?? "" }

    /// The time since the job entered its state or, for a scheduled job, until it is due.
    func age(at now: Int64) -> String {
        guard let since else { return "" }
        return state == .scheduled && since > now ? "in " + Age.text(since - now) : Age.text(now - since)
    }

    /// Why the job failed, waits or is tried again. What a queued job waits for is a sentence, like `host a.example (limit
    /// connections 1)`. It stands alone, so that the host is there even if the column is narrow.
    var reason: String { waiting.isEmpty ? error : waiting.contains(" ") ? waiting : "waits: \(waiting)" }
}

extension JobOrder: ExpressibleByArgument {}
