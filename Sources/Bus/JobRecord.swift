package import HaulContract

/// A job as its hash and its offsets describe it.
package struct JobRecord: Sendable {
    package let id: String
    package let state: JobState
    package let fields: [String: String]
    package let offsets: ByteIntervals

    /// A field that is not empty.
    package subscript(field: String) -> String? { fields[field].flatMap { $0.isEmpty ? nil : $0 } }

    package func integer(_ field: String) -> Int64? { fields[field].flatMap { Int64($0) } }

    /// A sentence for a job whose response was dropped; nil for others.
    package var droppedResponse: String? {
        self["response_dropped"].map { _ in
            "the response was dropped, since the queue keeps no more than max_responses_bytes of them"
        }
    }

    /// The tokens of an ended job's last run, and of its runs that were lost with their workers.
    package var endedRuns: Set<String> {
        let lost = (self["lost"] ?? "").split(separator: " ").map(String.init)
        return Set([self["token"], self["settled"]].compactMap(\.self) + lost)
    }

    /// The epoch and number of the job's last event.
    package var position: EventPosition {
        EventPosition(epoch: integer("epoch") ?? 0, sequence: integer("seq") ?? 0)
    }

    /// Whether the job has ended and its event was published. A completed job may still wait for replicas.
    package var hasEnded: Bool { state.isFinal && (state != .completed || self["waiting"] != "replicas") }

    /// Whether the push of `moment` (unix ms) has come to its end: the job has ended, and its event was published.
    package func hasEnded(since moment: Int64) -> Bool {
        hasEnded && Self.isSettled(moment, asof: fields["asof"], ahead: fields["ahead"])
    }

    /// Whether a push of `moment` (unix ms) would count as a repeat: is_repeat() in Lua/push.lua.
    static func isSettled(_ moment: Int64, asof: String?, ahead: String?) -> Bool {
        asof.flatMap { Int64($0) } ?? 0 >= moment || ahead.flatMap { Int64($0) } == moment
    }

    /// Fields that only the functions and workers need.
    package static let hidden: Set<String> = [
        "again", "ahead", "asof", "behind", "bytes", "doomed", "host", "journal", "lost", "pushed", "question",
        "resumed", "retried", "sent", "settled", "ticket", "token", "untold", "wantat",
    ]
}
