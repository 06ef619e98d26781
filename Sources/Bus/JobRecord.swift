package import HaulContract

/// A job as its hash tells it.
package struct JobRecord: Sendable {
    package let id: String
    package let state: JobState
    package let fields: [String: String]
    package let offsets: ByteIntervals

    package subscript(field: String) -> String? { fields[field].flatMap { $0.isEmpty ? nil : $0 } }

    package func integer(_ field: String) -> Int64? { fields[field].flatMap { Int64($0) } }

    /// What is said of a job whose response is no longer kept.
    package var droppedResponse: String? {
        self["response_dropped"].map { _ in
            "the response was dropped, since the queue keeps no more than max_responses_bytes of them"
        }
    }

    /// Of an ended job: the tokens of its last run, and of those that were lost with their workers.
    package var endedRuns: Set<String> {
        let lost = (self["lost"] ?? "").split(separator: " ").map(String.init)
        return Set([self["token"], self["settled"]].compactMap(\.self) + lost)
    }

    /// Where its last event stands.
    package var position: EventPosition {
        EventPosition(epoch: integer("epoch") ?? 0, sequence: integer("seq") ?? 0)
    }

    /// Whether it has ended and that may be told: a completed job may wait for replicas.
    package var hasEnded: Bool { state.isFinal && (state != .completed || self["waiting"] != "replicas") }

    /// Whether it has ended, that may be told, and what was pushed at `moment` has come to its end with it.
    package func hasEnded(since moment: Int64) -> Bool {
        hasEnded && Self.isSettled(moment, asof: fields["asof"], ahead: fields["ahead"])
    }

    /// Whether a push of `moment` would be a duplicate once more, by the rule of Lua/push.lua.
    static func isSettled(_ moment: Int64, asof: String?, ahead: String?) -> Bool {
        asof.flatMap { Int64($0) } ?? 0 >= moment || ahead.flatMap { Int64($0) } == moment
    }

    /// Fields that mean nothing outside the functions.
    package static let hidden: Set<String> = [
        "again", "ahead", "asof", "behind", "bytes", "doomed", "journal", "lost", "pushed", "question", "resumed",
        "sent", "settled", "ticket", "token", "untold", "wantat",
    ]
}
