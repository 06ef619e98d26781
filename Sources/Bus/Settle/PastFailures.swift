package import HaulContract

/// The field `failures` of a job's hash: the attempts that did not complete the job, as a JSON array, the oldest first.
package enum PastFailures {
    /// Older ones are left out.
    static let maxCount = 10
    /// Unicode scalars of a message. Failures stay with the job, so that none may be large.
    private static let maxMessage = 200

    /// `known` with one more attempt.
    ///
    /// - Parameters:
    ///   - known: What the hash has; nil if there was none.
    ///   - started: When the attempt began, unix ms; `ended` likewise.
    ///   - received: Bytes that the job had received at its end.
    package static func text(
        _ known: String?, adding failure: Failure, started: Int64, ended: Int64, worker: String, received: Int64
    ) -> String {
        var json = JSONObject()
        json.set("started", started)
        json.set("ended", ended)
        json.set("worker", worker)
        json.set("error", failure.code.rawValue)
        let scalars = failure.message.unicodeScalars
        json.set("message", String(String.UnicodeScalarView(scalars.prefix(maxMessage))))
        json.set("received", received)
        let earlier = known.flatMap { try? JSON($0) }?.array ?? []
        return "[\((earlier.suffix(maxCount - 1).map(\.text) + [json.text]).joined(separator: ","))]"
    }
}
