import HaulContract
import HaulHTTP
import Synchronization

/// What the responses to one download, upload or request have shown, for `--verbose`, `--write-out` and
/// `--save-cookies`.
final class TransferRecord: Sendable {
    struct Facts: Sendable {
        /// The last response that was not a redirect, or the last redirect if no other response came.
        var head: ResponseHead?
        var redirects = 0
        /// Responses on connections of their own.
        var connections = 0
        var redirectSeconds = 0.0
    }

    private let state = Mutex(Facts())
    private let cookies: CookieFile?
    private let trace: (@Sendable (String) -> Void)?

    init(_ cookies: CookieFile?, trace: (@Sendable (String) -> Void)?) { (self.cookies, self.trace) = (cookies, trace) }

    /// Runs `body`, all of whose responses `record` sees. Nothing is observed without a record.
    static func observe<T: Sendable>(_ record: TransferRecord?, _ body: @Sendable () async -> T) async -> T {
        guard let record else { return await body() }
        return await ResponseObserver.$current.withValue(ResponseObserver { record.record($0) }) { await body() }
    }

    var facts: Facts { state.withLock { $0 } }

    func record(_ head: ResponseHead) {
        let isRedirect = (301...308).contains(head.status) && head.headers["location"] != nil
        state.withLock { facts in
            facts.head = head
            if !head.isReused { facts.connections += 1 }
            guard isRedirect else { return }
            facts.redirects += 1
            facts.redirectSeconds += head.facts?.responded ?? 0
        }
        cookies?.record(head)
        trace?(Self.traceLine(head))
    }

    /// `HTTP/1.1 200 from 127.0.0.1:443, TLSv1.3; name 1 ms, connected 2 ms, TLS 9 ms, first byte 12 ms`
    private static func traceLine(_ head: ResponseHead) -> String {
        guard let facts = head.facts else { return "HTTP \(head.status)" }
        let address = head.remoteAddress.contains(":") ? "[\(head.remoteAddress)]" : head.remoteAddress
        var text = "HTTP/\(facts.httpVersion) \(head.status) from \(address):\(facts.remotePort)"
        if let proxy = facts.proxy { text += " through the proxy \(proxy)" }
        if let tls = facts.tls { text += ", \(tls)" }
        let times = [
            ("name", facts.resolved), ("connected", facts.connected), ("TLS", facts.secured),
            ("first byte", facts.responded),
        ].filter { $0.1 > 0 && (!head.isReused || $0.0 == "first byte") }
        if head.isReused { text += ", on the connection of an earlier request" }
        return text + "; " + times.map { "\($0.0) \(Int(($0.1 * 1000).rounded())) ms" }.joined(separator: ", ")
    }
}
